import { describe, expect, it } from "vitest";
import { readInventory, readLive, readObservation, withoutNul } from "../../../../control-plane/rpc/wire.ts";
import type { HostReport__Output } from "../../../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { InstanceReport__Output } from "../../../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { Inventory__Output } from "../../../../proto/gen/stoker/fleet/v1/Inventory.ts";

const max64 = (2n ** 64n - 1n).toString();
const max32 = 2 ** 32 - 1;
const pebibyte = 2 ** 50;
/** A message with these figures; every other list is empty, every other text too. */
const message = <Of>(fields: object): Of =>
  new Proxy(fields, { get: (all, key) => (key in all ? Reflect.get(all, key) : []) }) as Of;

describe("figures of a report", () => {
  it("fit the columns of an instance", () => {
    const seen = readObservation(
      message<InstanceReport__Output>({
        phase: "ready",
        generation: max64,
        bytesDone: max64,
        bytesTotal: max64,
        restarts: max32,
        contextLength: max32,
        sshPort: max32,
      }),
    );
    expect(seen).toMatchObject({
      generation: 2 ** 31 - 1,
      bytesDone: BigInt(pebibyte),
      bytesTotal: BigInt(pebibyte),
      restarts: 2 ** 31 - 1,
      contextLength: 2 ** 31 - 1,
      sshPort: 2 ** 31 - 1,
    });
  });

  it("are at most 1 PiB for memory and disks of a host", () => {
    const found = readInventory(
      message<Inventory__Output>({
        memoryBytes: max64,
        diskTotalBytes: max64,
        diskFreeBytes: max64,
        gpus: [message({ type: "A100-40GB", memoryBytes: max64 })],
        containers: null,
        metricsAddress: "",
      }),
    );
    expect(found).toMatchObject({
      memoryBytes: pebibyte,
      diskTotalBytes: pebibyte,
      diskFreeBytes: pebibyte,
      gpus: [{ memoryBytes: pebibyte }],
    });
  });

  it("are at most 1 PiB for memory in use", () => {
    const live = readLive(
      message<HostReport__Output>({
        load: message({ memoryUsedBytes: max64, memoryTotalBytes: max64 }),
        gpus: [message({ memoryUsedBytes: max64 })],
      }),
    );
    expect(live.load).toMatchObject({ memoryUsedBytes: pebibyte, memoryTotalBytes: pebibyte });
    expect(live.gpus[0]?.memoryUsedBytes).toBe(pebibyte);
  });
});

describe("texts of a report", () => {
  it("have no NUL, which PostgreSQL refuses, in any field", () => {
    const id = Buffer.from([0]);
    const report = {
      failMessage: "no \0 tensors",
      gpus: [{ name: "\0" }],
      names: ["a\0b", "c"],
      count: 3,
      id,
      none: null,
    };
    expect(withoutNul(report)).toEqual({
      ...{ failMessage: "no \ufffd tensors", gpus: [{ name: "\ufffd" }], names: ["a\ufffdb", "c"] },
      ...{ count: 3, id: Buffer.from([0]), none: null },
    });
  });
});
