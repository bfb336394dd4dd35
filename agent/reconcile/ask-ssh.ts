import { connect } from "node:net";
import type { Health } from "./health.ts";

/** An SSH server says its version first. */
export function askSsh(origin: string, signal: AbortSignal): Promise<Health> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), signal });
    const end = (health: Health): void => {
      socket.destroy();
      resolve(health);
    };
    socket.once("data", (said) =>
      end(
        said.toString("latin1").startsWith("SSH-")
          ? { kind: "ready", contextLength: 0 }
          : { kind: "bad", why: "something else than an SSH server answers" },
      ),
    );
    socket.once("end", () => end({ kind: "loading", progress: "the SSH server is not ready yet" }));
    socket.once("error", reject);
  });
}
