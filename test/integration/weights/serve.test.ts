// What a neighbour that stops reading costs the others.
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createServeWeights } from "../../../agent/weights/serve-weights.ts";

const name = "c".repeat(64);
const bytes = 64 * 1024 * 1024;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "stoker-serve-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

it("readers that take nothing any more lose their places to the next one", async () => {
  await writeFile(join(folder, name), Buffer.alloc(bytes));
  const blobs = { has: async () => bytes, pathOf: (one: string) => join(folder, one) };
  const serve = createServeWeights(blobs, { recall: async () => undefined }, 3_000);
  const server = createServer((request, response) => void serve(request, response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const stalled = Array.from({ length: 4 }, () => {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    socket.once("readable", () => {});
    socket.write(`GET /weights/blobs/${name} HTTP/1.1\r\nhost: a\r\n\r\n`);
    return socket;
  });
  const ask = async (): Promise<number> => {
    const answer = await fetch(`http://127.0.0.1:${port}/weights/blobs/${name}`);
    await answer.body?.cancel();
    return answer.status;
  };
  try {
    await Promise.all(stalled.map((socket) => once(socket, "readable")));
    expect(await ask()).toBe(503);
    await vi.waitFor(async () => expect(await ask()).toBe(200), { timeout: 30_000, interval: 50 });
  } finally {
    for (const socket of stalled) socket.destroy();
    server.closeAllConnections();
    server.close();
  }
});
