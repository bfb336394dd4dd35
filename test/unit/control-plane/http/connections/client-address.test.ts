import type { IncomingMessage } from "node:http";
import Fastify from "fastify";
import { expect, test } from "vitest";
import { clientOf } from "../../../../../control-plane/http/connections/client-address.ts";

const trusted = ["10.0.0.5", "192.168.0.0/16", "2001:db8::/32"];
const request = (remoteAddress: string, headers: object, encrypted?: true) =>
  ({ socket: { remoteAddress, ...(encrypted && { encrypted }) }, headers }) as unknown as IncomingMessage;
const forwarded = (remoteAddress: string, list?: string) =>
  request(remoteAddress, list === undefined ? {} : { "x-forwarded-for": list });

test("takes the client's address from the nearest proxy that is not trusted, as Fastify does", async () => {
  const app = Fastify({ trustProxy: trusted });
  app.get("/", async ({ ip }) => ip);
  const cases: [string, string?][] = [
    ["203.0.113.1"],
    ["203.0.113.1", "198.51.100.1"],
    ["10.0.0.5"],
    ["10.0.0.5", "198.51.100.1"],
    ["10.0.0.6", "198.51.100.1"],
    ["10.0.0.5", "192.0.2.9, 198.51.100.1"],
    ["10.0.0.5", "192.0.2.9,198.51.100.1 , 192.168.7.7"],
    ["192.168.1.1", "10.0.0.5, 192.168.2.2"],
    ["::ffff:10.0.0.5", "2001:db8::7, 2001:db9::7, 2001:db8::8"],
  ];
  for (const [remoteAddress, told] of cases) {
    const headers = told === undefined ? {} : { "x-forwarded-for": told };
    const { body } = await app.inject({ url: "/", remoteAddress, headers });
    expect(clientOf(trusted)(forwarded(remoteAddress, told)).address, `${remoteAddress} ${told}`).toBe(body);
  }
  await app.close();
});

test("ignores an entry that is no address, and the entries before it", () => {
  const of = (remoteAddress: string, list: string) => clientOf(trusted)(forwarded(remoteAddress, list)).address;
  expect(of("10.0.0.5", "192.0.2.1, <script>")).toBe("10.0.0.5");
  expect(of("10.0.0.5", "192.0.2.1, unknown, 192.168.3.3")).toBe("192.168.3.3");
  expect(of("10.0.0.5", "")).toBe("10.0.0.5");
  expect(clientOf([])(forwarded("203.0.113.1", "192.0.2.1")).address).toBe("203.0.113.1");
});

test("is secure by what a trusted proxy reports, else by its connection, as with Fastify", async () => {
  const app = Fastify({ trustProxy: trusted });
  app.get("/", async ({ protocol }) => protocol);
  const cases: [string, string?][] = [
    ["10.0.0.5"],
    ["10.0.0.5", "https"],
    ["10.0.0.5", "http"],
    ["10.0.0.5", "http, https"],
    ["10.0.0.5", "https,http"],
    ["10.0.0.5", "gopher"],
    ["203.0.113.1", "https"],
  ];
  for (const [remoteAddress, protocol] of cases) {
    const headers = protocol === undefined ? {} : { "x-forwarded-proto": protocol };
    const { body } = await app.inject({ url: "/", remoteAddress, headers });
    const { isSecure } = clientOf(trusted)(request(remoteAddress, headers));
    expect(isSecure, `${remoteAddress} ${protocol}`).toBe(body === "https");
  }
  await app.close();
  const overTls = request("203.0.113.1", { "x-forwarded-proto": "http" }, true);
  expect([clientOf(trusted)(overTls).isSecure, clientOf([])(overTls).isSecure]).toEqual([true, true]);
});
