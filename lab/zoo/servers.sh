# shellcheck shell=bash disable=SC2154 # name, mode, port, dir, src and out come from run.sh
# How each server of the zoo is started. `serve` does not return.
case $name in
minetest)
    mkdir -p "$dir/world"
    printf 'gameid = minetest\nbackend = sqlite3\n' >"$dir/world/world.mt"
    printf 'bind_address = 127.0.0.1\nserver_announce = false\nmax_users = 8\nfixed_map_seed = 7\n' >"$dir/server.conf"
    # The load is a mod: 5 ms of Lua in each server step, and new land asked for each second, which the emerge thread makes.
    if [ "$mode" = load ]; then
        mkdir -p "$dir/world/worldmods/zoo"
        cp "$src/minetest.lua" "$dir/world/worldmods/zoo/init.lua"
    fi
    serve minetestserver --world "$dir/world" --config "$dir/server.conf" --port "$port" --quiet
    ;;
teeworlds)
    printf 'bindaddr 127.0.0.1\nsv_port %s\nsv_register 0\nsv_map dm1\n' "$port" >"$dir/server.cfg"
    with teeworlds 4
    serve teeworlds-server -f server.cfg
    ;;
ddnet)
    printf 'bindaddr 127.0.0.1\nsv_port %s\nsv_ipv4only 1\nsv_register 0\nsv_map dm1\n' "$port" >"$dir/server.cfg"
    with ddnet 4
    serve DDNet-Server -f server.cfg
    ;;
mosquitto)
    printf 'listener %s 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type error\nuser root\n' "$port" >"$dir/server.conf"
    with mqtt 4 250
    serve mosquitto -c "$dir/server.conf"
    ;;
node-20 | node-60)
    no_load
    serve node "$src/interval.js" "${name#node-}" 2000
    ;;
asyncio-call-at | asyncio-call-later | asyncio-sleep | python-sleep)
    no_load
    how=${name#asyncio-}
    case $how in call-*) how=${how/-/_} ;; sleep) how=asleep ;; python-sleep) how=sleep ;; esac
    serve python3 "$src/ticks.py" "$how" 20 2000
    ;;
java-rate | java-delay | java-rate-pool)
    no_load
    threads=1
    case $name in *-pool) threads=4 name=java-rate ;; esac
    serve java -Xmx128m -cp "$out" Fixed "${name#java-}" 20 2000 "$threads"
    ;;
go-ticker-1 | go-ticker-2 | go-sleep)
    no_load
    export GOMAXPROCS=2
    [ "$name" != go-ticker-1 ] || GOMAXPROCS=1
    how=${name#go-}
    serve "$out/ticker" "${how%-*}" 30 2000
    ;;
tokio)
    no_load
    serve "$out/tokio/release/zoo-tokio"
    ;;
pool)
    no_load
    serve "$out/pool"
    ;;
esac
