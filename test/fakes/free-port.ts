// Ports for servers that are started later, and again after a kill. They lie below those that the system hands to whoever listens
// on any port or connects somewhere: nothing that other tests begin meanwhile can take one by chance.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

const first = 15_000;
const last = 32_000;
const given = new Set<number>();

export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 1_000; tries++) {
    const port = randomInt(first, last);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no port between ${first} and ${last} is free`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer().once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}
