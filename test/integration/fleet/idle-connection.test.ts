// F14 at the port of agents: idle connections are closed.
import { connect } from "node:http2";
import { pino } from "pino";
import { afterEach, expect, it, vi } from "vitest";
import { makeAuthority, openAuthority } from "../../../control-plane/fleet/authority.ts";
import { createGrpcServer, type GrpcServer } from "../../../control-plane/rpc/grpc-server.ts";

let server: GrpcServer | undefined;
afterEach(() => server?.close());

it("a connection without a call is closed after its limit", async () => {
  const authority = openAuthority(makeAuthority(Date.now()), { nowMs: Date.now, lifeMs: 3_600_000 });
  const nobody = async () => {
    throw new Error("nobody asks");
  };
  const { issueOwn } = authority;
  const log = pino({ level: "silent" });
  server = createGrpcServer({
    issueOwn,
    enroll: nobody,
    renew: nobody,
    admit: nobody,
    onStream() {},
    idleMs: 300,
    log,
  });
  const port = await server.listen("127.0.0.1", 0);
  const client = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  // A reset is an end as good as any.
  client.on("error", () => {});
  await vi.waitFor(() => expect(client.destroyed).toBe(true), { timeout: 30_000, interval: 50 });
});
