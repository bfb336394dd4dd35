import type { IncomingMessage } from "node:http";
import Fastify from "fastify";
import { expect, test } from "vitest";
import { clientAddress } from "../../../../control-plane/http/client-address.ts";

const trusted = ["10.0.0.5", "192.168.0.0/16", "2001:db8::/32"];
const asked = (remoteAddress: string, told?: string) =>
  ({
    socket: { remoteAddress },
    headers: told === undefined ? {} : { "x-forwarded-for": told },
  }) as unknown as IncomingMessage;

test("a client's address is what the nearest proxy that is not trusted says, as for routes", async () => {
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
    expect(clientAddress(trusted)(asked(remoteAddress, told)), `${remoteAddress} ${told}`).toBe(body);
  }
  await app.close();
});

test("what is no address is told to nobody, nor is what stands before it", () => {
  const of = clientAddress(trusted);
  expect(of(asked("10.0.0.5", "192.0.2.1, <script>"))).toBe("10.0.0.5");
  expect(of(asked("10.0.0.5", "192.0.2.1, unknown, 192.168.3.3"))).toBe("192.168.3.3");
  expect(of(asked("10.0.0.5", ""))).toBe("10.0.0.5");
  expect(clientAddress([])(asked("203.0.113.1", "192.0.2.1"))).toBe("203.0.113.1");
});
