// Closed-loop load over bare sockets, to keep the CPU time of the client low: it shares cores with the server.
import { connect, type Socket } from "node:net";

export interface LeanLoad {
  readonly port: number;
  readonly path: string;
  readonly concurrency: number;
  /** Body of request number `i` of all. */
  readonly body: (i: number) => string;
  readonly seconds: number;
}

/** Responses per second. Throws if one is not a 200 with a length. */
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

/** Sends a request on the socket and waits for the complete response. */
function exchanges(socket: Socket): (request: string) => Promise<void> {
  let done: () => void = () => {};
  let failed: (error: Error) => void = () => {};
  /** Remaining bytes of the body. Undefined before the end of the headers. */
  let left: number | undefined;
  let head = "";
  const onData = (chunk: Buffer) => {
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
  socket.on("data", onData);
  socket.on("error", (error) => failed(error));
  socket.on("close", () => failed(new Error("the model server closed the connection")));
  return (request) =>
    new Promise((resolve, reject) => {
      done = resolve;
      failed = reject;
      socket.write(request);
    });
}
