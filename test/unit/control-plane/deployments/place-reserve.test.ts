// Account minimums: whatever is deployed, the GPUs reserved for other accounts stay free.
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Want } from "../../../../control-plane/deployments/place-fit.ts";
import { withPlaced } from "../../../../control-plane/deployments/place-index.ts";
import { whyNot } from "../../../../control-plane/deployments/place-reasons.ts";
import { type GpuMinimums, maxNewGpus } from "../../../../control-plane/deployments/place-reserve.ts";
import { place } from "../../../../control-plane/deployments/placement-preview.ts";
import type { HostView } from "../../../../control-plane/fleet/host.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const accounts = ["u:ada", "u:bob", "u:cid"] as AccountId[];
const type = "H100-80GB" as const;

const fleetOf = (sizes: readonly number[]): HostView[] =>
  sizes.map((size, n) =>
    hostView(`h${n}`, {
      inventory: inventory({
        gpus: Array.from({ length: size }, (_, i) => gpu(i, { uuid: `GPU-${n}-${i}`, type, memoryBytes: 80 * gib })),
        memoryBytes: 2_000 * gib,
      }),
    }),
  );

const wantOf = (count: number, maxNew: number | undefined): Want => ({
  ...{ gpu: type, gpusPerInstance: count, memoryBytes: gib, engine: "stoker", host: undefined, maxNewGpus: maxNew },
});

/** Places it as a controller would; the fleet afterwards, or the same one. */
function deploy(
  hosts: readonly HostView[],
  minimums: GpuMinimums,
  account: AccountId,
  count: number,
): readonly HostView[] {
  const placed = place(wantOf(count, maxNewGpus(minimums, hosts, account, type)), hosts);
  return placed.ok ? hosts.map((host) => (host.id === placed.host ? withPlaced(host, placed, account) : host)) : hosts;
}

const heldBy = (hosts: readonly HostView[], account: AccountId) =>
  hosts.reduce((sum, host) => sum + host.claims.filter((claim) => claim.account === account).length, 0);
const sizeOf = (hosts: readonly HostView[]) => hosts.reduce((sum, host) => sum + host.inventory.gpus.length, 0);

const sizes = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 });
const deploys = fc.array(fc.tuple(fc.nat({ max: 2 }), fc.integer({ min: 1, max: 3 })), { maxLength: 20 });

it("guarantees the minimum of every account, one GPU at a time, whatever the others deployed before", () => {
  fc.assert(
    fc.property(
      sizes,
      fc.tuple(fc.nat({ max: 5 }), fc.nat({ max: 5 }), fc.nat({ max: 5 })),
      deploys,
      (sizes, min, all) => {
        const start = fleetOf(sizes);
        // Promises that the fleet could keep in the first place.
        fc.pre(min.reduce((sum, one) => sum + one, 0) <= sizeOf(start));
        const minimums: GpuMinimums = new Map(accounts.map((account, n) => [account, { [type]: min[n] ?? 0 }]));
        let hosts: readonly HostView[] = start;
        for (const [who, count] of all) hosts = deploy(hosts, minimums, accounts[who] as AccountId, count);
        for (const [n, account] of accounts.entries()) {
          for (let tries = min[n] ?? 0; tries > 0 && heldBy(hosts, account) < (min[n] ?? 0); tries--)
            hosts = deploy(hosts, minimums, account, 1);
          expect(heldBy(hosts, account)).toBeGreaterThanOrEqual(min[n] ?? 0);
        }
      },
    ),
  );
});

it("gives all free GPUs to any account once no minimum is outstanding", () => {
  fc.assert(
    fc.property(sizes, deploys, (sizes, all) => {
      const [ada, bob] = accounts as [AccountId, AccountId];
      const minimums: GpuMinimums = new Map([[bob, { [type]: 2 }]]);
      let hosts: readonly HostView[] = fleetOf(sizes);
      for (const [who, count] of all) hosts = deploy(hosts, minimums, accounts[who] as AccountId, count);
      for (let n = sizeOf(hosts); n > 0; n--) hosts = deploy(hosts, minimums, ada, 1);
      const held = accounts.reduce((sum, account) => sum + heldBy(hosts, account), 0);
      expect(sizeOf(hosts) - held).toBe(Math.min(Math.max(0, 2 - heldBy(hosts, bob)), sizeOf(hosts) - held));
    }),
  );
});

it("count again after a host is lost, and a refused account reads that free GPUs are reserved", () => {
  const [ada, bob] = accounts as [AccountId, AccountId];
  const minimums: GpuMinimums = new Map([[bob, { [type]: 1 }]]);
  const [first, second] = fleetOf([1, 1]) as [HostView, HostView];
  const claims = [{ gpuUuid: "GPU-0-0", account: bob }];
  const bobRuns = { ...first, claims };
  expect(maxNewGpus(minimums, [bobRuns, second], ada, type)).toBe(1);
  const most = maxNewGpus(minimums, [{ ...bobRuns, state: "lost" }, second], ada, type);
  expect(most).toBe(0);
  expect(whyNot(wantOf(1, most), second)).toContain("reserved for accounts");
  expect(maxNewGpus(minimums, [{ ...bobRuns, state: "lost" }, second], bob, type)).toBeUndefined();
});
