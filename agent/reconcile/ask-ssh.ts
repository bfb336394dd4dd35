import { connect } from "node:net";

type SshHealth =
  | { readonly kind: "ready"; readonly contextLength: number }
  | { readonly kind: "loading"; readonly progress: string }
  | { readonly kind: "bad"; readonly why: string };

/** An SSH server says its version first. */
export function askSsh(origin: string, signal: AbortSignal): Promise<SshHealth> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), signal });
    const end = (health: SshHealth): void => {
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
