#!/usr/bin/env python3
"""Load for a server of the zoo, on loopback. It runs until it is killed.

usage: load.py KIND PORT [NUMBER [RATE]]

mqtt CLIENTS RATE: publishers, and one subscriber that takes all
udp CLIENTS RATE: 64 bytes that mean nothing
lines CLIENTS RATE: TCP connections that send TEXT (4th argument) a line at a time, and read what comes
"""
import os, random, socket, struct, sys, threading, time

kind, port = sys.argv[1], int(sys.argv[2])
count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
rate = float(sys.argv[4]) if len(sys.argv) > 4 else 50.0
address = ("127.0.0.1", port)


def drain(sock):
    """Takes what has come and never waits."""
    got = []
    while True:
        try:
            got.append(sock.recv(65536))
        except (BlockingIOError, ConnectionRefusedError):
            return got


def udp_socket():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(address)
    sock.setblocking(False)
    return sock


def every(seconds):
    """Set times, without bursts after a delay."""
    due = time.monotonic()
    while True:
        yield
        due = max(due + seconds, time.monotonic() - seconds)
        time.sleep(max(0.0, due - time.monotonic()))


def send(sock, data):
    try:
        sock.send(data)
    except OSError:
        pass


def udp(_number):
    sock = udp_socket()
    for _ in every(1 / rate):
        send(sock, os.urandom(64))
        drain(sock)


def mqtt_connect(name):
    sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + struct.pack(">H", len(name)) + name
    sock.send(bytes([0x10, len(body)]) + body)
    sock.recv(4)
    return sock


def mqtt(number):
    sock = mqtt_connect(b"zoo%d" % number)
    if number == 0:
        sock.send(b"\x82\x08\x00\x01\x00\x03z/#\x00")
        while sock.recv(65536):
            pass
    topic = b"z/%d" % number
    packet = struct.pack(">H", len(topic)) + topic + b"x" * 64
    packet = bytes([0x30, len(packet)]) + packet
    for _ in every(random.uniform(0.9, 1.1) / rate):
        sock.send(packet)


def lines(_number):
    text = sys.argv[5].encode().decode("unicode_escape").encode()
    sock = socket.create_connection(address)
    sock.setblocking(False)
    for _ in every(1 / rate):
        send(sock, text)
        drain(sock)


def main(play):
    threads = [threading.Thread(target=play, args=(number,), daemon=True) for number in range(count)]
    if kind == "mqtt":
        threads.insert(0, threading.Thread(target=mqtt, args=(count,), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main({"udp": udp, "mqtt": mqtt, "lines": lines}[kind])
