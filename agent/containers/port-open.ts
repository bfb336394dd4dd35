import { connect } from "node:net";

export function isPortOpen(host: string, port: number, limitMs: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, signal, timeout: limitMs });
    const end = (found: boolean): void => {
      socket.destroy();
      resolve(found);
    };
    socket.once("connect", () => end(true));
    socket.once("timeout", () => end(false));
    socket.once("error", () => end(false));
  });
}
