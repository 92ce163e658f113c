"""The processes beside the services: service_peers.py NAME [ARGUMENT]. None of them uses PyTorch, so that they start at once."""

import json
import re
import socket
import sys
import time
import urllib.request

BURST = 8


def scraper(port):
    """Asks for the metrics again and again."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                answer.read()
        except OSError:
            time.sleep(0.05)
        time.sleep(0.005)


def cleaner():
    """Cleans the documents that come in, a line of JSON each."""
    for line in sys.stdin:
        document = json.loads(line)
        words = clean_words(document["text"]) if document["is_raw"] else []
        print(json.dumps({"words": len(words)}), flush=True)


def clean_words(text):
    words = []
    for word in text.split():
        word = re.sub(r"(\w)\1{2,}", r"\1", word.casefold())  # MARK clean_words
        words.append("".join(letter for letter in word if letter.isalnum()))  # MARK clean_words
    return words


def users(port):
    """Sends bursts of requests and takes the answers, with a pause between, as users do."""
    with socket.create_connection(("127.0.0.1", int(port))) as server:
        while True:
            server.sendall(b"?" * BURST)
            answers = 0
            while answers < BURST:
                received = server.recv(BURST)
                if not received:
                    return
                answers += len(received)
            time.sleep(0.004)


def fetch_page(number):
    """A page of a site that is overloaded: it answers at the third attempt."""
    for attempt in range(3):
        if attempt == 2:
            break
        time.sleep(0.006 * 2 ** attempt)  # MARK back_off
    return number


if __name__ == "__main__":
    roles = {"scraper": scraper, "cleaner": cleaner, "users": users}
    roles[sys.argv[1]](*sys.argv[2:])
