import { expect, it } from "vitest";
import { createDial } from "../../../../control-plane/fleet/dial.ts";
import type { HostId } from "../../../../proto/ids.ts";
import { PeerRefused } from "../../../../proto/peer-tls.ts";
import { newAuthority } from "../../../fakes/peers.ts";

const authority = newAuthority();
const hostId = "host-1" as HostId;
const secure = { hostId, origin: "https://10.0.0.7:9100" };

function dialler(over: { readonly plain?: string; readonly revoked?: string } = {}) {
  const world = { nowMs: 1_000_000, issued: 0 };
  const dial = createDial({
    issue: () => {
      world.issued += 1;
      return { ...authority.issueGateway("replica-1"), notAfterMs: world.nowMs + 3_000 };
    },
    isRevoked: (host) => host === over.revoked,
    mayBePlain: (hostname) => hostname === over.plain,
    nowMs: () => world.nowMs,
  });
  return { world, dial };
}

it("uses one certificate for two thirds of its lifetime, then the next", () => {
  const { world, dial } = dialler();
  const first = dial(secure).secureContext;
  world.nowMs += 1_999;
  expect(dial({ ...secure, hostId: "host-2" as HostId }).secureContext).toBe(first);
  expect(world.issued).toBe(1);
  world.nowMs += 1;
  expect(dial(secure).secureContext).not.toBe(first);
  expect(world.issued).toBe(2);
});

it("adds nothing to a plain HTTP connection, and creates no certificate for it", () => {
  const { world, dial } = dialler({ plain: "10.0.0.7" });
  expect(dial({ hostId, origin: "http://10.0.0.7:9100" })).toEqual({});
  expect(world.issued).toBe(0);
});

it("uses plain HTTP only to this machine, unless the operator names the host", () => {
  const { dial } = dialler();
  for (const near of ["http://127.0.0.1:9100", "http://[::1]:9100", "http://localhost:9100"])
    expect(dial({ hostId, origin: near })).toEqual({});
  for (const far of ["http://10.0.0.7:9100", "http://127.0.0.1.example.com:9100", "http://localhost.example.com"])
    expect(() => dial({ hostId, origin: far })).toThrow(
      /does not use TLS, which is required for hosts on other machines/,
    );
  expect(dial(secure).servername).toBeDefined();
});

it.each(["http://10.0.0.7:9100", "https://10.0.0.7:9100"])("opens nothing to a revoked host at %s", (origin) => {
  const { dial } = dialler({ revoked: "host-1", plain: "10.0.0.7" });
  expect(() => dial({ hostId, origin })).toThrow(PeerRefused);
  expect(() => dial({ hostId: "host-2" as HostId, origin })).not.toThrow();
});
