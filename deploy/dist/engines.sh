#!/bin/bash
# Makes the packages for engines that run C#, all from the one generated binding: a project for .NET and NuGet, a package for Unity, an
# example for Godot.
#
# usage: deploy/dist/engines.sh [--stage FOLDER] [NATIVE]
#
#   NATIVE   a folder with the library of each system: linux-x64, linux-arm64, win-x64, osx-x64 or osx-arm64, with libevenkeel_rt.so,
#            evenkeel_rt.dll or libevenkeel_rt.dylib in it [default: what deploy/dist/library.sh built, for Linux]
#   --stage  lays the packages out in FOLDER, and packs nothing
#
# The script leaves out a system whose library is missing, and prints its name. Writes evenkeel-rt-VERSION-csharp.zip,
# com.evenkeel.rt-VERSION.tgz (Unity) and evenkeel-rt-VERSION-godot.zip into target/dist.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=
if [ "${1:-}" = --stage ]; then
    stage=${2:?usage: engines.sh --stage FOLDER}
    shift 2
fi
native=${1:-}
to=${stage:-$work/stage}
own=$repository/crates/rt-c

file_of() { # SYSTEM
    case $1 in
    linux-*) echo libevenkeel_rt.so ;;
    win-*) echo evenkeel_rt.dll ;;
    osx-*) echo libevenkeel_rt.dylib ;;
    esac
}

# The library of this release, one folder for each processor that was built.
native_of_this_release() {
    local arch system library
    for arch in x86_64 aarch64; do
        system=linux-$([ "$arch" = x86_64 ] && echo x64 || echo arm64)
        library=$dist/$arch/library/usr/lib/$arch-linux-gnu/libevenkeel_rt.so
        if [ -e "$library" ]; then
            mkdir -p "$work/native/$system"
            cp -L "$library" "$work/native/$system/libevenkeel_rt.so"
        fi
    done
    echo "$work/native"
}

put() { # FILE TO: with the version filled in
    mkdir -p "$(dirname "$2")"
    sed "s/@VERSION@/$version/" "$1" >"$2"
    chmod 644 "$2"
}
put_binding() { # FOLDER
    put "$own/csharp/EvenkeelRt.cs" "$1/EvenkeelRt.cs"
    put "$own/csharp/TickThread.cs" "$1/TickThread.cs"
}
put_native() { # SYSTEM FOLDER
    mkdir -p "$2"
    install -m 644 "$native/$1/$(file_of "$1")" "$2/"
}
put_documents() { # FOLDER
    put "$own/engines/README.md" "$1/README.md"
    put "$repository/LICENSE-MIT" "$1/LICENSE-MIT.txt"
    put "$repository/LICENSE-APACHE" "$1/LICENSE-APACHE.txt"
}

dotnet() {
    local system
    put "$own/csharp/Evenkeel.Rt.csproj" "$1/Evenkeel.Rt.csproj"
    put_binding "$1"
    put_documents "$1"
    for system in "${systems[@]}"; do
        put_native "$system" "$1/runtimes/$system/native"
    done
}

godot() {
    local name system
    for name in project.godot main.tscn EvenkeelServer.csproj TickServer.cs; do
        put "$own/engines/godot/$name" "$1/$name"
    done
    put_binding "$1/evenkeel"
    put_documents "$1"
    for system in "${systems[@]}"; do
        # One folder can hold one library of a name, so the example is for the usual processors.
        case $system in
        linux-x64 | win-x64 | osx-x64) put_native "$system" "$1/evenkeel/native" ;;
        esac
    done
}

unity() {
    local system
    put "$own/engines/unity/package.json" "$1/package.json"
    put "$own/engines/unity/Evenkeel.Rt.asmdef" "$1/Runtime/Evenkeel.Rt.asmdef"
    put_binding "$1/Runtime"
    put_documents "$1"
    put "$own/engines/unity/TickServer.cs" "$1/Samples~/TickServer/TickServer.cs"
    put "$own/engines/unity/Evenkeel.TickServer.asmdef" "$1/Samples~/TickServer/Evenkeel.TickServer.asmdef"
    for system in "${systems[@]}"; do
        # Unity has no server for Linux on ARM.
        case $system in
        *-x64) put_native "$system" "$1/Plugins/x86_64" ;;
        osx-arm64) put_native "$system" "$1/Plugins/arm64" ;;
        esac
    done
    (cd "$1" && find . -mindepth 1 -name '*~' -prune -o -mindepth 1 -print | sort) | while read -r path; do
        meta "$1" "${path#./}" >"$work/meta"
        install -m 644 "$work/meta" "$1/$path.meta"
    done
}

# Unity's metadata for a file. The file's identity must stay from release to release, so it follows from the name.
meta() { # FOLDER PATH
    printf 'fileFormatVersion: 2\nguid: %s\n' "$(printf 'com.evenkeel.rt/%s' "$2" | md5sum | cut -c1-32)"
    if [ -d "$1/$2" ]; then
        echo 'folderAsset: yes'
        importer DefaultImporter
        return
    fi
    case $2 in
    *.cs)
        printf 'MonoImporter:\n  externalObjects: {}\n  serializedVersion: 2\n  defaultReferences: []\n  executionOrder: 0\n  icon: {instanceID: 0}\n'
        printf '  userData: \n  assetBundleName: \n  assetBundleVariant: \n'
        ;;
    *.asmdef) importer AssemblyDefinitionImporter ;;
    package.json) importer PackageManifestImporter ;;
    *.md | *.txt) importer TextScriptImporter ;;
    *.so) plugin Linux Linux64 x86_64 ;;
    *.dll) plugin Windows Win64 x86_64 ;;
    Plugins/arm64/*.dylib) plugin OSX OSXUniversal ARM64 ;;
    *.dylib) plugin OSX OSXUniversal x86_64 ;;
    *) fail "$2: which importer of Unity is it for?" ;;
    esac
}
importer() { printf '%s:\n  externalObjects: {}\n  userData: \n  assetBundleName: \n  assetBundleVariant: \n' "$1"; }

# The editor and the players of one system load the library, and no others.
plugin() { # EDITOR-SYSTEM PLAYER PROCESSOR
    local player
    cat <<META
PluginImporter:
  externalObjects: {}
  serializedVersion: 2
  iconMap: {}
  executionOrder: {}
  defineConstraints: []
  isPreloaded: 0
  isOverridable: 0
  isExplicitlyReferenced: 0
  validateReferences: 1
  platformData:
  - first:
      Any: 
    second:
      enabled: 0
      settings: {}
  - first:
      Editor: Editor
    second:
      enabled: 1
      settings:
        CPU: $3
        DefaultValueInitialized: true
        OS: $1
META
    for player in Linux64 OSXUniversal Win Win64; do
        printf '  - first:\n      Standalone: %s\n    second:\n' "$player"
        if [ "$player" = "$2" ]; then
            printf '      enabled: 1\n      settings:\n        CPU: %s\n' "$3"
        else
            printf '      enabled: 0\n      settings:\n        CPU: None\n'
        fi
    done
    printf '  userData: \n  assetBundleName: \n  assetBundleVariant: \n'
}

# pack_zip and pack_tgz: make the same bytes whenever they run.
pack_zip() { # FOLDER FILE.zip
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    rm -f "$2"
    (cd "$(dirname "$1")" && find "$(basename "$1")" -type f | sort | zip -q -X -9 "$2" -@)
}
pack_tgz() { # FOLDER FILE.tgz
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=ustar -C "$(dirname "$1")" -c "$(basename "$1")" |
        gzip -9n >"$2"
}

[ -n "$native" ] || native=$(native_of_this_release)
systems=()
for system in linux-x64 linux-arm64 win-x64 osx-x64 osx-arm64; do
    if [ -e "$native/$system/$(file_of "$system")" ]; then
        systems+=("$system")
    else
        echo "skipped: the library for $system, which is not in $native" >&2
    fi
done
[ ${#systems[@]} -gt 0 ] || fail "no library for any system is in $native" "deploy/dist/library.sh"

mkdir -p "$to"
dotnet "$to/evenkeel-rt-$version-csharp"
godot "$to/evenkeel-rt-$version-godot"
# Unity and npm use this name for the folder of a package.
unity "$to/package"
[ -z "$stage" ] || exit 0
command -v zip >/dev/null || fail "zip is missing: it packs the C# project" "apt-get install zip"
mkdir -p "$dist"
dist=$(realpath "$dist")
pack_zip "$to/evenkeel-rt-$version-csharp" "$dist/evenkeel-rt-$version-csharp.zip"
pack_zip "$to/evenkeel-rt-$version-godot" "$dist/evenkeel-rt-$version-godot.zip"
pack_tgz "$to/package" "$dist/com.evenkeel.rt-$version.tgz"
