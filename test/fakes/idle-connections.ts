// Clients that connect and then say nothing: not a word, half a request, or no further one on a connection that is kept.
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";

const kinds = ["silent", "half a request", "kept after an answer"] as const;

export interface IdleConnections {
  /** Those that the other side has not closed. */
  readonly open: number;
  close(): void;
}

/** What the other side may be asked without a key. */
const request = (path: string) => `GET ${path} HTTP/1.1\r\nhost: idle.example\r\n`;

/** Connected all, and answered where they asked. Rejects when one is not taken. */
export async function holdIdle(port: number, count: number, path = "/healthz"): Promise<IdleConnections> {
  const sockets: Socket[] = [];
  let open = 0;
  const openOne = (n: number) =>
    new Promise<void>((resolve, reject) => {
      const kind = kinds[n % kinds.length];
      const socket = connect({ host: "127.0.0.1", port });
      sockets.push(socket);
      socket.once("error", reject);
      socket.once("connect", () => {
        open += 1;
        socket.off("error", reject).on("error", () => {});
        socket.once("close", () => {
          open -= 1;
        });
        // Nobody reads a stream that does not flow, its end included.
        socket.resume();
        if (kind === "kept after an answer") {
          socket.once("data", () => resolve());
          socket.write(`${request(path)}\r\n`);
          return;
        }
        if (kind === "half a request") socket.write(request(path));
        resolve();
      });
    });
  // Fewer at a time than a listener keeps waiting.
  for (let from = 0; from < count; from += 100)
    await Promise.all(Array.from({ length: Math.min(100, count - from) }, (_, i) => openOne(from + i)));
  return {
    get open() {
      return open;
    },
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** So many, or fewer with loud words where this machine lets no process have so many files open. */
export function allowedConnections(wanted: number): number {
  const [, limit = "1024"] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
  const most = Math.max(100, Number(limit) - 500);
  if (most >= wanted) return wanted;
  process.stdout.write(
    `NOT PROVEN: ${wanted} idle connections; a process may have ${limit} files open here (ulimit -n), so it is ${most}\n`,
  );
  return most;
}

export const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? Number.NaN) / 1024;
