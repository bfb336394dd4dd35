// A closed-loop load over bare sockets, one request at a time on each: what the caller spends on HTTP is taken from the
// same cores as the server, and none of it belongs to what is measured.
import { connect, type Socket } from "node:net";

export interface LeanLoad {
  readonly port: number;
  readonly path: string;
  readonly concurrency: number;
  /** Body of request number `i` of all. */
  readonly body: (i: number) => string;
  readonly seconds: number;
}

/** Answers per second. Throws when one is not a 200 with a length. */
export async function runLeanLoad(load: LeanLoad): Promise<number> {
  const began = performance.now();
  const endMs = began + load.seconds * 1000;
  let answered = 0;
  await Promise.all(
    Array.from({ length: load.concurrency }, async (_, caller) => {
      const socket = connect({ port: load.port, host: "127.0.0.1", noDelay: true });
      const ask = exchanges(socket);
      for (let i = caller; performance.now() < endMs; i += load.concurrency) {
        await ask(requestText(load.path, load.body(i)));
        answered += 1;
      }
      socket.destroy();
    }),
  );
  return (answered * 1000) / (performance.now() - began);
}

function requestText(path: string, body: string): string {
  const length = Buffer.byteLength(body);
  return `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`;
}

/** Sends a request on the socket and resolves when its whole answer has come. */
function exchanges(socket: Socket): (request: string) => Promise<void> {
  let done: () => void = () => {};
  let failed: (error: Error) => void = () => {};
  /** Bytes of the answer that are still to come; undefined before its headers ended. */
  let left: number | undefined;
  let head = "";
  const heard = (chunk: Buffer) => {
    if (left === undefined) {
      const seen = head.length;
      head += chunk.toString("latin1");
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
      if (!head.startsWith("HTTP/1.1 200 ") || length === undefined)
        return failed(new Error(`the model server answered ${head.slice(0, 300)}`));
      left = Number(length) - (seen + chunk.length - end - 4);
    } else left -= chunk.length;
    if (left > 0) return;
    left = undefined;
    head = "";
    done();
  };
  socket.on("data", heard);
  socket.on("error", (error) => failed(error));
  socket.on("close", () => failed(new Error("the model server closed the connection")));
  return (request) =>
    new Promise((resolve, reject) => {
      done = resolve;
      failed = reject;
      socket.write(request);
    });
}
