// Two hosts, one of which has weights: the other fetches them over mutual TLS, and from nobody it does not know.
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBarredHosts } from "../../../agent/session/barred-hosts.ts";
import { createDataPathTls } from "../../../agent/wiring/control.ts";
import { operatorTicket } from "../../../control-plane/fleet/prover.ts";
import type { OwnCertificate } from "../../../proto/peer-tls.ts";
import { signTicket, weightsPurpose } from "../../../proto/ticket.ts";
import { type DataPath, startDataPath, ticketKey } from "../../fakes/data-path.ts";
import { hostCertificate, newAuthority } from "../../fakes/peers.ts";
import { type ChangingTls, changingTls } from "../../fakes/secure-data-path.ts";
import { anySignal, type CacheWorld, repo, startCacheWorld } from "./cache-world.ts";

const file = "tiny.gguf";
const bytes = Buffer.concat([Buffer.from("GGUF"), randomBytes(2_000_000)]);
const authority = newAuthority();
const stranger = newAuthority();
const asked = { repo, file };

let world: CacheWorld;
let hub: { readonly url: string };
let folder: string;
let holder: DataPath;
let holderTls: ChangingTls;

beforeEach(async () => {
  world = await startCacheWorld();
  folder = await mkdtemp(join(tmpdir(), "stoker-second-host-"));
  hub = await world.hub({ [file]: bytes });
  const has = world.store(hub);
  await has.ensure(asked, () => {}, anySignal());
  holderTls = changingTls(hostCertificate(authority, "holder"));
  holder = await startDataPath("http://127.0.0.1:1", { tls: holderTls, weights: has.serve });
});
afterEach(async () => {
  await holder.close();
  await world.end();
  await rm(folder, { recursive: true, force: true });
});

/** Another host, whose hub is away: what it gets comes from the holder. */
async function fetched({
  own = hostCertificate(authority, "asker"),
  named = "holder",
  barred = [],
}: {
  readonly own?: OwnCertificate | undefined;
  readonly named?: string;
  readonly barred?: readonly string[];
} = {}): Promise<Buffer> {
  const ticket = signTicket(operatorTicket(weightsPurpose, ""), ticketKey);
  const revoked = createBarredHosts();
  revoked.replace(barred);
  const { dial } = createDataPathTls({ current: () => own, onCertificate() {} }, revoked, false);
  const store = world.store(hub, {
    cacheDir: folder,
    isOffline: true,
    neighbours: async () => [{ origin: `https://127.0.0.1:${holder.port}`, hostId: named, ticket }],
    dialNeighbour: dial,
  });
  const { modelPath } = await store.ensure(asked, () => {}, anySignal());
  return readFile(modelPath);
}

it("come from a neighbour of the installation", async () => {
  expect(await fetched()).toEqual(bytes);
});

describe("do not come", () => {
  it("from another host than the one that was named", async () => {
    await expect(fetched({ named: "somebody" })).rejects.toThrow();
  });

  it("where an earlier control plane did not say which host it is", async () => {
    await expect(fetched({ named: "" })).rejects.toThrow();
  });

  it("from a host that was revoked", async () => {
    await expect(fetched({ barred: ["holder"] })).rejects.toThrow();
    expect(await fetched({ barred: ["somebody"] })).toEqual(bytes);
  });

  it("to a host that was revoked", async () => {
    holderTls.revoke("asker");
    await expect(fetched()).rejects.toThrow();
  });

  it("to a host of another installation", async () => {
    const { caPem } = hostCertificate(authority, "asker");
    await expect(fetched({ own: { ...hostCertificate(stranger, "asker"), caPem } })).rejects.toThrow();
  });

  it("from a host of another installation", async () => {
    holderTls.show(hostCertificate(stranger, "holder"));
    await expect(fetched()).rejects.toThrow();
  });
});
