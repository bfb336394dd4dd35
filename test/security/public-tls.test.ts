// TLS on the public port: which versions, for both ways of an inference request, and a renewal while the port is open.
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { type RequestOptions, request } from "node:https";
import { type AddressInfo, connect as connectTcp, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect, type TLSSocket } from "node:tls";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { AddressLimits } from "../../control-plane/http/connections/address-limits.ts";
import { defaultServerTimes } from "../../control-plane/http/connections/connection-limits.ts";
import { type WatchedTls, watchTls } from "../../control-plane/http/connections/public-tls.ts";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { startFakeAgent } from "../fakes/agent-data-plane.ts";
import { chat } from "../fakes/edge.ts";
import { apiKey, fakePorts } from "../fakes/ports.ts";
import { type CertificateFiles, writeCertificate } from "../fakes/public-certificate.ts";

let folder: string;
let first: CertificateFiles;
let second: CertificateFiles;
let served: CertificateFiles;
let tls: WatchedTls;
let app: Awaited<ReturnType<typeof createHttp>>;
let agent: Awaited<ReturnType<typeof startFakeAgent>>;
let port: number;
const lines: { level: number; msg: string }[] = [];
const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-tls-"));
  first = writeCertificate(folder, "first");
  second = writeCertificate(folder, "second");
  served = { certFile: join(folder, "served.pem"), keyFile: join(folder, "served.key") };
  replace(first);
  tls = await watchTls(served, log);
  const ports = fakePorts();
  agent = await startFakeAgent({});
  ports.routes.add(agent.origin);
  app = await createHttp({ ...ports.deps, tls });
  await app.listen({ host: "127.0.0.1", port: 0 });
  ({ port } = app.server.address() as AddressInfo);
});
afterAll(async () => {
  tls?.close();
  app?.server.closeAllConnections();
  await app?.close();
  await agent?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** As certbot and Kubernetes do: another file takes the name. */
function replace({ certFile, keyFile }: CertificateFiles): void {
  for (const [from, to] of [
    [certFile, served.certFile],
    [keyFile, served.keyFile],
  ] as const) {
    writeFileSync(`${to}.new`, readFileSync(from));
    renameSync(`${to}.new`, to);
  }
}

const ca = () => [first, second].map(({ certFile }) => readFileSync(certFile));

async function ask(path: string, body?: unknown, options: RequestOptions = {}) {
  const sent = request({
    ...{ host: "127.0.0.1", port, path, ca: ca(), agent: false, method: body === undefined ? "GET" : "POST" },
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    ...options,
  });
  const answer = new Promise<import("node:http").IncomingMessage>((resolve, reject) =>
    sent.once("response", resolve).once("error", reject),
  );
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const came = await answer;
  return { status: came.statusCode, headers: came.headers, body: await text(came) };
}

/** Name in the certificate that a new connection is shown. */
function shown(): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ host: "127.0.0.1", port, ca: ca() }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

describe("the public port with a certificate", () => {
  it("serves every kind of request over TLS, and requires it of browsers", async () => {
    for (let n = 0; n < 2; n++) expect((await ask("/v1/compat/chat/completions", chat())).status).toBe(200);
    const page = await ask("/login");
    expect([page.status, page.headers["strict-transport-security"]]).toEqual([200, "max-age=31536000"]);
    const { headers } = await ask("/v1/auth/sign-in", { email: "ada@example.com", password: "correct horse" });
    expect(headers["set-cookie"]?.[0]).toMatch(/^__Host-session=.*Secure/);
  });

  it("sends HSTS with every inference reply: whole, streamed, refused and repeated, on both paths", async () => {
    const path = "/v1/compat/chat/completions";
    const authorization = `Bearer ${apiKey}`;
    const keyed = { headers: { authorization, "content-type": "application/json", "idempotency-key": "hsts" } };
    // The first request of a path takes Fastify's route, later ones the short path.
    const replies = [
      await ask(path, chat()),
      await ask(path, chat()),
      await ask(path, chat({ model: "no/such" })),
      await ask(path, chat({ messages: "none" })),
      await ask(path, chat(), { headers: { "content-type": "application/json" } }),
      await ask(path, chat(), keyed),
      await ask(path, chat(), keyed),
    ];
    expect(replies.map(({ status, headers }) => [status, headers["strict-transport-security"]])).toEqual(
      [200, 200, 404, 422, 401, 200, 200].map((status) => [status, "max-age=31536000"]),
    );
    agent.script({ kind: "stream" });
    const { headers } = await ask(path, chat({ stream: true }));
    agent.script({ kind: "whole" });
    expect(headers["content-type"]).toContain("text/event-stream");
    expect(headers["strict-transport-security"]).toBe("max-age=31536000");
  });

  it("sends HSTS with refusals of unreadable and incomplete requests", async () => {
    for (const bytes of [
      "no request\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    ]) {
      const socket = connect({ host: "127.0.0.1", port, ca: ca() });
      socket.once("secureConnect", () => socket.write(bytes));
      const reply = await text(socket);
      expect(reply).toContain("HTTP/1.1 400");
      expect(reply.match(/strict-transport-security: max-age=31536000\r\n/g)).toHaveLength(1);
    }
  });

  it("closes a connection whose handshake does not end, at most 20 s after it began, and counts it in the limits", async () => {
    expect(defaultServerTimes.handshakeTimeout).toBe(20_000);
    const ports = fakePorts();
    const addresses = new AddressLimits({ requestsPerSecond: 0, connections: 3 }, () => false);
    // This machine is exempt: the server sees another address.
    const impatient = await createHttp({
      ...{ ...ports.deps, tls, addresses },
      serverTimes: { handshakeTimeout: 1_000 },
    });
    impatient.server.prependListener("connection", (socket: Socket) =>
      Object.defineProperty(socket, "remoteAddress", { value: "192.0.2.7" }),
    );
    await impatient.listen({ host: "127.0.0.1", port: 0 });
    const open = () => {
      const socket = connectTcp((impatient.server.address() as AddressInfo).port, "127.0.0.1");
      const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
      // The start of a ClientHello that never ends; "error" comes before "close".
      socket.on("error", () => {}).write(Buffer.from([0x16, 3, 1, 2, 0, 1]));
      return { socket, closed };
    };
    const connections = async () =>
      await new Promise<number>((resolve) => impatient.server.getConnections((_, count) => resolve(count)));
    try {
      const silent = [open(), open(), open()];
      await vi.waitFor(async () => expect(await connections()).toBe(3), { timeout: 20_000 });
      // A fourth connection of this address is closed while the others are in their handshakes.
      const fourth = open();
      await fourth.closed;
      expect(silent.map(({ socket }) => socket.destroyed)).toEqual([false, false, false]);
      await Promise.all(silent.map(({ closed }) => closed));
      const metrics = await ports.deps.registry.metrics();
      // The fourth is destroyed during its handshake, and may count here too.
      expect(metrics).toMatch(/stoker_http_connections_refused_total{error="tls_handshake"} [34]\n/);
      expect(metrics).toContain('stoker_http_connections_refused_total{error="too_many_connections_of_address"} 1');
      const later = open();
      await vi.waitFor(async () => expect(await connections()).toBe(1), { timeout: 20_000 });
      expect(later.socket.destroyed).toBe(false);
      later.socket.destroy();
    } finally {
      impatient.server.closeAllConnections();
      await impatient.close();
    }
  }, 60_000);

  it("speaks TLS 1.2 and 1.3, and nothing older", async () => {
    for (const version of ["TLSv1.2", "TLSv1.3"] as const)
      expect((await ask("/healthz", undefined, { minVersion: version, maxVersion: version })).status).toBe(200);
    const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" } as const;
    await expect(ask("/healthz", undefined, old)).rejects.toThrow(/protocol version|alert|ECONNRESET|hang up/);
    expect((await ask("/healthz")).status).toBe(200);
  });

  it("gives plain HTTP no answer", async () => {
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
    expect((await ask("/healthz")).status).toBe(200);
  });

  it("shows a new certificate to new connections, and keeps the old ones open", async () => {
    expect(await shown()).toBe("first");
    const kept = connect({ host: "127.0.0.1", port, ca: ca() });
    await new Promise((resolve) => kept.once("secureConnect", resolve));
    replace(second);
    await vi.waitFor(async () => expect(await shown()).toBe("second"), { timeout: 20_000, interval: 100 });
    kept.write("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    expect(await text(kept)).toContain("HTTP/1.1 200");
  });

  it("keeps what it serves where new files cannot be served, and says so", async () => {
    writeFileSync(`${served.certFile}.new`, "no certificate");
    renameSync(`${served.certFile}.new`, served.certFile);
    await vi.waitFor(
      () => expect(lines.filter(({ msg }) => msg.startsWith("could not load the new TLS certificate"))).not.toEqual([]),
      { timeout: 20_000 },
    );
    expect(await shown()).toBe("second");
    // A key that belongs to another certificate.
    writeFileSync(served.certFile, readFileSync(second.certFile));
    writeFileSync(served.keyFile, readFileSync(first.keyFile));
    await expect(watchTls(served, log)).rejects.toThrow(/STOKER_TLS_CERT and STOKER_TLS_KEY cannot be served/);
    expect(await shown()).toBe("second");
    replace(first);
    await vi.waitFor(async () => expect(await shown()).toBe("first"), { timeout: 20_000, interval: 100 });
  });
});
