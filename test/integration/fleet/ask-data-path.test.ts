// Every response at the address of a host ends the request to it.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it } from "vitest";
import { proveDataPath } from "../../../control-plane/fleet/prover.ts";
import type { HostId } from "../../../proto/ids.ts";

it("an unexpected response, such as an upgrade, fails a proof instead of blocking it", async () => {
  const stranger = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () =>
      socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
    );
  }).listen(0, "127.0.0.1");
  await once(stranger, "listening");
  const origin = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`;
  const path = { hostId: "host-1" as HostId, origin, ticketKey: Buffer.alloc(32, 1) };
  try {
    expect(await proveDataPath(() => ({}), path, new AbortController().signal)).toEqual({
      ok: false,
      condition: `data_path_unreachable: ${origin} answered 101`,
    });
  } finally {
    stranger.close();
  }
});
