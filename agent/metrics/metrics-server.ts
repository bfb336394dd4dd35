// The agent's own pages, on a port of their own so that a scrape needs no access to the data path. Each is rendered from memory.
// `/inspect` answers callers of this machine only.
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { BearerSecret } from "../../proto/bearer-secret.ts";

interface Page {
  readonly contentType: string;
  readonly render: () => string | Promise<string>;
  readonly isLocal?: boolean;
}

interface MetricsServerOptions {
  readonly pages: Readonly<Record<string, Page>>;
  readonly host: string;
  readonly port: number;
  readonly token: BearerSecret | undefined;
  /** Called for each page that was sent, with its duration from the request to the last byte written. */
  readonly took?: (path: string, seconds: number) => void;
}

export async function startMetricsServer(options: MetricsServerOptions) {
  const { pages, host, port, token, took } = options;
  const server = createServer((req, res) => {
    const beganMs = performance.now();
    const path = (req.url ?? "").split("?", 1)[0] ?? "";
    const page = req.method === "GET" ? pages[path] : undefined;
    if (!page || (page.isLocal && !isFromHere(req))) return void res.writeHead(404).end();
    if (token && !token.matches(req.headers.authorization))
      return void res.writeHead(401, { "www-authenticate": "Bearer" }).end();
    Promise.resolve()
      .then(page.render)
      .then(
        (text) => {
          res.writeHead(200, { "content-type": page.contentType }).end(text);
          took?.(path, (performance.now() - beganMs) / 1000);
        },
        () => res.writeHead(500).end(),
      );
  });
  server.listen(port, host);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function isFromHere({ socket }: IncomingMessage): boolean {
  const from = socket.remoteAddress ?? "";
  return from === "::1" || /^(::ffff:)?127\./.test(from) || from === socket.localAddress;
}
