import { once } from "node:events";
import { createServer, type ServerOptions } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, it, onTestFinished } from "vitest";
import { createConnectionErrors } from "../../../../../control-plane/http/connections/connection-errors.ts";

function noticed() {
  const lines: Record<string, unknown>[] = [];
  const clock = { nowMs: 0 };
  const registry = new Registry();
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const errors = createConnectionErrors({ log, registry, unixMs: () => clock.nowMs });
  return { errors, lines, clock, registry };
}

async function open(options: ServerOptions): Promise<Socket> {
  const server = createServer(options, (_req, res) => void res.write("begun"));
  server.on("clientError", noticed().errors.unreadable);
  onTestFinished(() => void server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.on("error", () => {});
  return socket;
}

it.each([
  ["its headers", "GET / HTTP/1.1\r\nhost: x\r\n"],
  ["its first line", "GE"],
])("a request that does not end %s in time is 408 with a sentence", async (_what, bytes) => {
  const socket = await open({ headersTimeout: 50, requestTimeout: 50, connectionsCheckingInterval: 10 });
  socket.write(bytes);
  const answer = await text(socket);
  expect(answer).toMatch(/^HTTP\/1.1 408 Request Timeout\r\n/);
  const { code, error } = JSON.parse(answer.split("\r\n\r\n")[1] ?? "");
  expect([code, error]).toEqual(["request_timeout", expect.stringContaining("was not received in time")]);
});

it("nothing is written into an answer that has begun", async () => {
  const socket = await open({});
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await once(socket, "readable");
  socket.write("no http\r\n\r\n");
  const answer = await text(socket);
  expect(answer).toContain("begun");
  expect(answer).not.toContain("400 Bad Request");
});

it("what is refused is counted each time, and logged once a second without the bytes that came", async () => {
  const { errors, lines, clock, registry } = noticed();
  const secret = Object.assign(new Error("Parse Error"), {
    code: "HPE_INVALID_METHOD",
    rawPacket: Buffer.from("GET /?key=hunter2"),
  });
  const knock = () => errors.unreadable(secret, new PassThrough());
  knock();
  knock();
  clock.nowMs += 1_001;
  knock();
  const told = { status: 400, error: "bad_request", why: "HPE_INVALID_METHOD", msg: "connection refused" };
  expect(lines).toMatchObject([told, { ...told, unsaid: 1 }]);
  expect(JSON.stringify(lines)).not.toContain("hunter2");
  expect(await registry.metrics()).toContain('stoker_http_connections_refused_total{error="bad_request"} 3');
});
