import type { AddressInfo } from "node:net";
import { connect, createServer, type Server } from "node:net";

export interface SlowLink {
  readonly host: string;
  /** Bytes a second towards the client; undefined: as fast as it goes. */
  bytesPerSecond: number | undefined;
  close(): void;
}

/** A TCP link in front of a server of this machine that can be made slow. */
export async function slowLink(target: string): Promise<SlowLink> {
  const [host = "", port = ""] = target.split(":");
  const server: Server = createServer((client) => {
    const upstream = connect(Number(port), host);
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on("error", end).on("close", end);
    client.pipe(upstream);
    upstream.on("data", (piece) => {
      client.write(piece);
      const rate = link.bytesPerSecond;
      if (rate === undefined) return;
      upstream.pause();
      setTimeout(() => upstream.resume(), (piece.length / rate) * 1000);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const link: SlowLink = {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    bytesPerSecond: undefined,
    close: () => void server.close(),
  };
  return link;
}
