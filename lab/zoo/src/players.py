#!/usr/bin/env python3
"""Players of Teeworlds 0.7 and of DDNet (0.6 with tokens): they join, and send their input 50 times a second, each at its own moment.

usage: players.py teeworlds|ddnet PORT PLAYERS

A snapshot says which tick of the server it shows. So the first player's line, each 10 s, is the server's own count of its ticks.
"""
import os, random, socket, sys, threading, time

SEVEN = sys.argv[1] == "teeworlds"
PORT, PLAYERS = int(sys.argv[2]), int(sys.argv[3])
CODES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../crates/workload/src/load/ddnet/huffman.txt")
CONNECT, CONNECT_ACCEPT, ACCEPT, CLOSE, TOKEN = 1, 2, 3, 4, 5
NOBODY = b"\xff" * 4
# Messages of the engine and of the game.
if SEVEN:
    INFO, MAP_CHANGE, CON_READY, SNAPS, READY, ENTER, INPUT = 1, 2, 5, range(6, 10), 18, 19, 20
    READY_TO_ENTER, START_INFO = 8, 27
else:
    INFO, MAP_CHANGE, CON_READY, SNAPS, READY, ENTER, INPUT = 1, 2, 4, range(5, 8), 14, 15, 16
    READY_TO_ENTER, START_INFO = 8, 20


def tree():
    root = {}
    for line in open(CODES):
        if line.startswith("#"):
            continue
        symbol, bits = line.split()
        node = root
        for bit in bits[:-1]:
            node = node.setdefault(int(bit), {})
        node[int(bits[-1])] = 256 if symbol == "end" else int(symbol, 16)
    return root


TREE = tree()


def unpack(packed):
    text, node = bytearray(), TREE
    for byte in packed:
        for bit in range(8):
            node = node[byte >> bit & 1]
            if node == 256:
                return bytes(text)
            if isinstance(node, int):
                text.append(node)
                node = TREE
    return bytes(text)


def number(value):
    sign, rest = (0x40, ~value) if value < 0 else (0, value)
    out, byte = bytearray(), sign | rest & 0x3F
    rest >>= 6
    while rest:
        out.append(byte | 0x80)
        byte, rest = rest & 0x7F, rest >> 7
    out.append(byte)
    return bytes(out)


def take(data):
    value, shift = data[0] & 0x3F, 6
    index, sign = 0, data[0] & 0x40
    while data[index] & 0x80:
        index += 1
        value |= (data[index] & 0x7F) << shift
        shift += 7
    return (~value if sign else value), data[index + 1:]


def text(value):
    return value.encode() + b"\0"


class Player:
    def __init__(self, index):
        self.name = f"zoo {index}"
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect(("127.0.0.1", PORT))
        self.mine, self.token = os.urandom(4), NOBODY
        self.ack = self.sequence = 0
        self.tick, self.first, self.state, self.waiting = None, None, "new", []
        self.index = index

    def send(self, flags, chunks, payload):
        head = bytes([flags | self.ack >> 8 & 3, self.ack & 0xFF, chunks])
        packet = head + self.token + payload if SEVEN else head + payload + self.token
        try:
            self.sock.send(packet)
        except OSError:
            pass

    def control(self, message, more=b""):
        self.send(0x04 if SEVEN else 0x10, 0, bytes([message]) + more)

    def chunk(self, message, vital):
        size = len(message)
        if SEVEN:
            head = [(0x40 if vital else 0) | size >> 6, size & 0x3F | (self.sequence >> 2 & 0xC0 if vital else 0)]
        else:
            head = [(0x40 if vital else 0) | size >> 4, size & 0x0F | (self.sequence >> 2 & 0xF0 if vital else 0)]
        return bytes(head + ([self.sequence & 0xFF] if vital else [])) + message

    def say(self, kind, system, more=b""):
        self.sequence = (self.sequence + 1) % 1024
        self.send(0, 1, self.chunk(number(kind << 1 | system) + more, True))

    def begin(self):
        if SEVEN and self.token == NOBODY:
            self.control(TOKEN, self.mine + b"\0" * 508)
        elif SEVEN:
            self.control(CONNECT, self.mine + b"\0" * 508)
        else:
            self.control(CONNECT, b"TKEN")

    def input(self):
        walk = random.choice([-1, 0, 1]) if random.random() < 0.05 else getattr(self, "walk", 0)
        self.walk = walk
        hands = [walk, random.randint(-200, 200), random.randint(-200, -1), random.random() < 0.05, 0, walk > 0, 0 if SEVEN else 1, 0, 0, 0]
        message = number(INPUT << 1 | 1)
        for value in [self.tick, self.tick + 2, 40] + [int(one) for one in hands]:
            message += number(value)
        self.send(0, 1, self.chunk(message, False))

    def hear(self, packet):
        flags, self_ack, chunks = packet[0], packet[1], packet[2]
        if SEVEN:
            if flags >> 2 & 8:
                return
            control, packed, payload, token = flags >> 2 & 1, flags >> 2 & 4, packet[7:], packet[3:7]
        else:
            if flags & 0x20:
                return
            control, packed, payload = flags & 0x10, flags & 0x80, packet[3:]
        if packed:
            payload = unpack(payload)
        if not SEVEN:
            payload, token = payload[:-4], payload[-4:]
        if control:
            self.hear_control(payload, token)
            return
        for _ in range(chunks):
            first, second = payload[0], payload[1]
            size = (first & 0x3F) << 6 | second & 0x3F if SEVEN else (first & 0x3F) << 4 | second & 0x0F
            payload = payload[2:]
            fresh = True
            if first & 0x40:
                sequence = ((second & 0xC0) << 2 | payload[0]) if SEVEN else ((second & 0xF0) << 2 | payload[0]) % 1024
                payload = payload[1:]
                fresh = sequence == (self.ack + 1) % 1024
                if fresh:
                    self.ack = sequence
            if fresh:
                self.message(payload[:size])
            payload = payload[size:]

    def hear_control(self, payload, token):
        if payload[0] == TOKEN and SEVEN and self.state == "new":
            self.token = payload[1:5]
            self.begin()
        elif payload[0] == CONNECT_ACCEPT and self.state == "new":
            if not SEVEN:
                self.token = token
                self.control(ACCEPT)
            self.state = "joining"
            if SEVEN:
                self.say(INFO, 1, text("0.7 802f1be60a05665f") + text("") + number(0x0705))
            else:
                self.say(INFO, 1, text("0.6 626fce9a778df4d4") + text(""))
        elif payload[0] == CLOSE:
            print("closed:", payload[1:], flush=True)
            self.state = "closed"

    def message(self, data):
        kind, rest = take(data)
        system, kind = kind & 1, kind >> 1
        if system and kind == MAP_CHANGE:
            self.say(READY, 1)
        elif system and kind == CON_READY:
            info = text(self.name) + text("") + number(-1)
            if SEVEN:
                info += text("standard") + text("") * 2 + text("standard") * 3 + number(0) * 12
            else:
                info += text("default") + number(0) * 3
            self.say(START_INFO, 0, info)
        elif not system and kind == READY_TO_ENTER:
            self.say(ENTER, 1)
            self.state = "playing"
        elif system and kind in SNAPS:
            self.snapshot(take(rest)[0])

    def snapshot(self, tick):
        now = time.monotonic()
        self.tick = max(tick, self.tick or 0)
        if self.first is None:
            self.first = (tick, now)
        elif self.index == 0 and now - self.first[1] >= 10:
            ticks, seconds = tick - self.first[0], now - self.first[1]
            print(f"zoo: {ticks} ticks in {seconds:.3f} s, {ticks / seconds:.3f} Hz", flush=True)
            self.first = (tick, now)

    def play(self):
        time.sleep(random.random() * 0.5)
        due, asked = time.monotonic(), 0.0
        while self.state != "closed":
            due += 0.02
            while (wait := due - time.monotonic()) > 0:
                self.sock.settimeout(wait)
                try:
                    self.hear(self.sock.recv(2048))
                except (TimeoutError, ConnectionRefusedError):
                    pass
            if self.state == "new" and time.monotonic() - asked > 0.5:
                asked = time.monotonic()
                self.begin()
            if self.tick is not None:
                self.input()
            due = max(due, time.monotonic() - 0.1)


threads = [threading.Thread(target=Player(index).play) for index in range(PLAYERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
