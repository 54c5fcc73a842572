# shellcheck shell=bash disable=SC2154,SC2034 # name, mode, port, dir, src and out come from run.sh, which reads load, closed and user
# How each server of the zoo is started. `serve` does not return.
case $name in
minetest)
    mkdir -p "$dir/world"
    printf 'gameid = minetest\nbackend = sqlite3\n' >"$dir/world/world.mt"
    printf 'bind_address = 127.0.0.1\nserver_announce = false\nmax_users = 8\nfixed_map_seed = 7\n' >"$dir/server.conf"
    # The load is a mod: 5 ms of Lua in each server step, and each second a request for new land, which the emerge thread makes.
    if [ "$mode" = load ]; then
        mkdir -p "$dir/world/worldmods/zoo"
        cp "$src/minetest.lua" "$dir/world/worldmods/zoo/init.lua"
    fi
    serve minetestserver --world "$dir/world" --config "$dir/server.conf" --port "$port" --quiet
    ;;
teeworlds)
    printf 'bindaddr 127.0.0.1\nsv_port %s\nsv_register 0\nsv_map dm1\n' "$port" >"$dir/server.cfg"
    players teeworlds
    serve teeworlds-server -f server.cfg
    ;;
ddnet)
    printf 'bindaddr 127.0.0.1\nsv_port %s\nsv_ipv4only 1\nsv_register 0\nsv_max_clients_per_ip 16\nsv_connlimit 1000\nsv_vanilla_antispoof 0\nsv_map dm1\n' "$port" >"$dir/server.cfg"
    players ddnet
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
    case $how in call-*) how=${how/-/_} ;; sleep) how="asleep" ;; python-sleep) how="sleep" ;; esac
    serve "$python" "$src/ticks.py" "$how" 20 2000
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
asio | asio-chained)
    with udp 4 50
    how=set-times
    [ "$name" = asio ] || how=chained
    serve "$out/asio" "$port" "$how"
    ;;
tokio)
    no_load
    serve "$out/tokio/release/zoo-tokio"
    ;;
pool)
    no_load
    serve "$out/pool"
    ;;
arena)
    # evenkeel's own game server, and its players: `make build`, or ZOO_BIN names their folder.
    bin=${ZOO_BIN:-}
    for folder in debug release; do
        [ -n "$bin" ] || [ ! -x "$top/target/$folder/evenkeel-arena" ] || bin=$top/target/$folder
    done
    [ "$mode" = idle ] || load=("$bin/evenkeel-bots" --no-control --connect "127.0.0.1:$port" --bots 16)
    serve "${bin:+$bin/}evenkeel-arena" --listen "127.0.0.1:$port"
    ;;
openarena)
    # The engine itself: Debian's wrapper only adds options. `dedicated 1` announces it to nobody.
    bots=()
    [ "$mode" = idle ] || bots=(+addbot gargoyle 3 +addbot grism 3 +addbot kyonshi 3 +addbot major 3)
    serve /usr/lib/ioquake3/ioq3ded +set com_basegame baseoa +set fs_basepath /usr/lib/openarena-server +set fs_homepath "$dir" \
        +set com_homepath .openarena +set com_legacyprotocol 71 +set com_protocol 71 +set cl_motd 0 +set ttycon 0 +set dedicated 1 \
        +set net_enabled 1 +set net_ip 127.0.0.1 +set net_port "$port" +set sv_maxclients 12 +set bot_enable 1 \
        +set g_gametype 0 +set timelimit 0 +set fraglimit 0 +map oa_dm1 "${bots[@]}"
    ;;
hedgewars)
    with lines 4 20 'PING\n\n'
    closed=yes
    serve hedgewars-server --port="$port" --dedicated=False
    ;;
freeciv)
    # Load: five players that the computer controls, without a time limit for a turn.
    if [ "$mode" = load ]; then
        printf 'set aifill 5\nset minplayers 0\nset endturn 5000\nset timeout 1\nset victories ""\nstart\n' >"$dir/game.serv"
    else
        printf 'set aifill 0\n' >"$dir/game.serv"
    fi
    user=nobody
    serve freeciv-server --bind 127.0.0.1 --port "$port" --read "$dir/game.serv" --saves "$dir" --Announce none
    ;;
mumble)
    printf 'database=%s/mumble.sqlite\nhost=127.0.0.1\nport=%s\nlogfile=\nbonjour=false\n' "$dir" "$port" >"$dir/mumble.ini"
    with udp 4 50
    user=nobody
    serve murmurd -fg -ini "$dir/mumble.ini"
    ;;
bzflag)
    with udp 4 50
    serve bzfs -i 127.0.0.1 -p "$port" -j -ms 3 +r
    ;;
openttd)
    mkdir -p "$dir/data"
    printf '[network]\nserver_advertise = false\nserver_game_type = local\nmin_active_clients = 0\n[difficulty]\nmax_no_competitors = 0\n[gui]\nautosave = off\n' >"$dir/openttd.cfg"
    serve openttd -D "127.0.0.1:$port" -c "$dir/openttd.cfg" -g -G 7
    ;;
wesnoth)
    with udp 1 1
    closed=yes
    serve wesnothd-1.16 --port "$port"
    ;;
armagetron)
    no_load
    printf 'SERVER_PORT %s\nSERVER_IP 127.0.0.1\nTALK_TO_MASTER 0\n' "$port" >"$dir/server_info.cfg"
    closed=yes
    serve armagetronad-dedicated.real --datadir /usr/share/games/armagetronad --configdir /etc/armagetronad-dedicated \
        --userdatadir "$dir" --vardir "$dir" --autoresourcedir "$dir"
    ;;
crossfire)
    with lines 2 10 '\0\05beat '
    cp -r /var/games/crossfire "$dir/local" 2>/dev/null || mkdir "$dir/local"
    closed=yes user=nobody
    serve crossfire-server -p "$port" -log "$dir/log" -local "$dir/local"
    ;;
pioneers)
    closed=yes
    serve pioneers-server-console -p "$port" -t 0
    ;;
liquidwar)
    closed=yes
    serve liquidwar-server -2 -port "$port" -lan
    ;;
netpanzer)
    export SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy
    closed=yes
    serve netpanzer -d -p "$port"
    ;;
coturn)
    with udp 4 50
    serve turnserver -n --listening-ip 127.0.0.1 --listening-port "$port" --no-tls --no-dtls --no-cli --log-file stdout \
        --db "$dir/turn.sqlite" --pidfile "$dir/pid" --no-auth --relay-ip 127.0.0.1
    ;;
nats)
    with lines 4 500 'PUB zoo 5\r\nhello\r\n'
    serve nats-server -a 127.0.0.1 -p "$port"
    ;;
beanstalkd)
    with lines 2 500 'put 0 0 60 5\r\nhello\r\ndelete 1\r\n'
    serve beanstalkd -l 127.0.0.1 -p "$port"
    ;;
ngircd)
    printf '[Global]\nName = zoo.example.net\nInfo = zoo\nListen = 127.0.0.1\nPorts = %s\n[Options]\nIdent = no\nPAM = no\nDNS = no\n' "$port" >"$dir/ngircd.conf"
    with lines 4 20 'NICK zoo\r\nUSER a b c :d\r\nPING a\r\n'
    serve ngircd -n -f "$dir/ngircd.conf"
    ;;
memcached)
    with lines 4 1000 'set a 0 0 5\r\nhello\r\nget a\r\n'
    user=nobody
    serve memcached -l 127.0.0.1 -p "$port" -U 0 -t 2
    ;;
redis)
    with lines 4 1000 'SET a hello\r\nGET a\r\n'
    serve redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$dir"
    ;;
nginx)
    printf 'daemon off; master_process off; pid %s/pid; error_log stderr;\nevents { worker_connections 256; }\nhttp { access_log off; keepalive_requests 1000000000; keepalive_timeout 1d; server { listen 127.0.0.1:%s; location / { return 200 zoo; } } }\n' "$dir" "$port" >"$dir/nginx.conf"
    with lines 4 500 'GET / HTTP/1.1\r\nHost: zoo\r\n\r\n'
    serve nginx -p "$dir" -c "$dir/nginx.conf"
    ;;
esac
