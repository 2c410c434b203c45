// A TCP proxy whose connections can be cut, to lose a gateway and find it again.

import { connect, createServer } from "node:net";

export class Proxy {
  static async listen(target) {
    const proxy = new Proxy(new URL(target));
    await proxy.open(0);
    return proxy;
  }

  constructor(target) {
    Object.assign(this, { target, sockets: new Set(), server: null, port: 0 });
  }

  get origin() {
    return `http://${this.target.hostname}:${this.port}`;
  }

  open(port = this.port) {
    this.server = createServer((socket) => {
      const onward = connect(Number(this.target.port), this.target.hostname);
      for (const one of [socket, onward]) {
        this.sockets.add(one);
        one.on("error", () => {});
        one.on("close", () => {
          this.sockets.delete(one);
          socket.destroy();
          onward.destroy();
        });
      }
      socket.pipe(onward).pipe(socket);
    });
    return new Promise((resolve) => this.server.listen(port, this.target.hostname, () => {
      this.port = this.server.address().port;
      resolve();
    }));
  }

  /** Refuses new connections and cuts all others. */
  cut() {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    return closed;
  }
}
