import type { Duplex } from "node:stream";

const reasons = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  429: "Too Many Requests",
  502: "Bad Gateway",
  503: "Service Unavailable",
} as const;

export function refuseUpgrade(socket: Duplex, status: keyof typeof reasons): void {
  const head = `HTTP/1.1 ${status} ${reasons[status]}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`;
  // The server's timeouts no longer apply to this socket, and its peer may never close its side.
  socket.end(head, () => socket.destroy());
}
