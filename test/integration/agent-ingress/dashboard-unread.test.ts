// A gateway that takes nothing any more, at the agent's end of a dashboard.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { Duplex } from "node:stream";
import pino from "pino";
import { expect, it, vi } from "vitest";
import { createDashboardTunnels } from "../../../agent/ingress/dashboard-tunnels.ts";
import type { InstanceId } from "../../../proto/ids.ts";

it("a tunnel whose program has ended is let go though what it said last is read by nobody", async () => {
  const program = createServer((socket) => socket.end("the last word"));
  program.listen(0, "127.0.0.1");
  await once(program, "listening");
  const { port } = program.address() as AddressInfo;
  let written = 0;
  /** Its writes never end. */
  const gateway = new Duplex({
    read() {},
    write() {
      written += 1;
    },
  });
  const tunnels = createDashboardTunnels(pino({ level: "silent" }), 20_000, { unreadMs: 200 });
  try {
    tunnels.open("one" as InstanceId, `http://127.0.0.1:${port}`, gateway, Buffer.alloc(0));
    await vi.waitFor(() => expect(gateway.destroyed).toBe(true), { timeout: 20_000, interval: 20 });
    expect(written).toBe(1);
  } finally {
    gateway.destroy();
    program.close();
  }
});
