import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { memoryFault, xidFault } from "../../../../agent/fingerprint/gpu-faults.ts";
import { type KernelRecord, openKernelLog, parseJournal, parseKmsg } from "../../../../agent/fingerprint/kernel-log.ts";
import { createXidWatch, meaningOf, parseXid, pciAddress } from "../../../../agent/fingerprint/xid.ts";

const silent = pino({ level: "silent" });
const offTheBus = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

describe("the kernel log", () => {
  it("is read from the device's records, without the lines of device names", () => {
    const text = `6,1234,567890123,-;${offTheBus}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n4,1235,567890999,-;usb 1-1: new\n`;
    expect(parseKmsg(text)).toEqual([
      { bootUs: 567890123, message: offTheBus },
      { bootUs: 567890999, message: "usb 1-1: new" },
    ]);
  });

  it("is read from the journal, with the time of the kernel's own clock", () => {
    const entry = { __CURSOR: "c7", MESSAGE: offTheBus, _SOURCE_MONOTONIC_TIMESTAMP: "567890123" };
    expect(parseJournal(`${JSON.stringify(entry)}\n-- No entries --\n`)).toEqual([
      { bootUs: 567890123, message: offTheBus },
    ]);
  });

  it("is searched in the journal from the boot on once, then for what is new, and not at every look", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stoker-journal-"));
    const [asked, answer, journal] = ["asked", "answer", "journal"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    // As journalctl does with --grep: nothing found is exit status 1.
    writeFileSync(journal, `#!/bin/sh\necho "$*" >> ${asked}\ncat ${answer} 2>/dev/null || exit 1\n`, { mode: 0o755 });
    let nowMs = 1_000_000;
    const log = openKernelLog(join(folder, "none"), journal, { steady: () => nowMs, wall: () => 5_000_000 + nowMs });
    const read = () => log.read(AbortSignal.timeout(10_000));
    const bounds = () => {
      const lines = readFileSync(asked, "utf8").trim().split("\n");
      return lines.map((line) => / --since=@(\d+)$/.exec(line)?.[1] ?? "boot");
    };
    try {
      expect(await read()).toEqual([]);
      nowMs += 2_000;
      expect(await read()).toEqual([]);
      expect(bounds()).toEqual(["boot"]);
      nowMs += 30_000;
      writeFileSync(answer, JSON.stringify({ MESSAGE: offTheBus, _SOURCE_MONOTONIC_TIMESTAMP: "7" }));
      expect(await read()).toEqual([{ bootUs: 7, message: offTheBus }]);
      nowMs += 30_000;
      expect(await read()).toEqual([]);
      expect(bounds()).toEqual(["boot", "5940", "5972"]);
    } finally {
      await log.close();
      rmSync(folder, { recursive: true });
    }
  });
});

describe("an Xid", () => {
  it("finds the GPU by its address, also as nvidia-smi writes it", () => {
    expect(parseXid(offTheBus, 5)).toMatchObject({ pciAddress: "0000:3b:00", code: 79, bootUs: 5 });
    expect(pciAddress("00000000:3B:00.0")).toBe("0000:3b:00");
    expect(parseXid("NVRM: loading NVIDIA UNIX x86_64 Kernel Module", 5)).toBeUndefined();
  });

  it.each([48, 63, 64, 74, 79, 94, 95, 119])("takes the GPU out of use with code %i", (code) => {
    expect(meaningOf(code)).toBeTruthy();
  });

  it.each([13, 31, 43, 45])("leaves the GPU in use with code %i", (code) => {
    expect(meaningOf(code)).toBeUndefined();
  });

  it("is the fault of its own GPU alone, the last fatal one, under the same name for every agent of that boot", () => {
    const xids = [
      ["0000:3b:00", 48],
      ["0000:3b:00", 79],
      ["0000:3b:00", 31],
      ["0000:5e:00", 94],
    ] as const;
    const seen = xids.map(([address, code], at) => ({ pciAddress: address, code, bootUs: at, text: "" }));
    const fault = xidFault({ pciBusId: "00000000:3B:00.0" }, seen, "boot");
    expect(fault).toMatchObject({ id: "xid:79:boot:1", reason: expect.stringContaining("fallen off the bus") });
    expect(xidFault({ pciBusId: "00000000:1B:00.0" }, seen, "boot")).toBeUndefined();
    expect(xidFault({ pciBusId: "" }, seen, "boot")).toBeUndefined();
  });
});

describe("the watch over the kernel log", () => {
  it("reports a fatal Xid once, and continues after the log could not be read for a while", async () => {
    const answers: (KernelRecord[] | Error)[] = [
      [{ bootUs: 1, message: "NVRM: Xid (PCI:0000:3b:00): 31, Ch 0" }],
      new Error("run the agent as root"),
      [{ bootUs: 2, message: offTheBus }],
      [],
    ];
    const watch = createXidWatch(
      {
        read: async () => {
          const answer = answers.shift() ?? [];
          if (answer instanceof Error) throw answer;
          return answer;
        },
      },
      silent,
    );
    const signal = AbortSignal.timeout(5_000);
    expect(await watch.look(signal)).toBe(false);
    expect(await watch.look(signal)).toBe(false);
    expect(watch.trouble).toContain("run the agent as root");
    expect(await watch.look(signal)).toBe(true);
    expect(watch.trouble).toBe("");
    expect(await watch.look(signal)).toBe(false);
    expect(watch.xids.map(({ code }) => code)).toEqual([31, 79]);
  });
});

it("counts of memory errors are a fault of this boot and this count", () => {
  expect(memoryFault({ uncorrected: 0, rowRemapFailure: "No" }, "b")).toBeUndefined();
  expect(memoryFault({ uncorrected: undefined, rowRemapFailure: undefined }, "b")).toBeUndefined();
  expect(memoryFault({ uncorrected: 2, rowRemapFailure: "No" }, "b")).toMatchObject({ id: "ecc:b:2" });
  expect(memoryFault({ uncorrected: 0, rowRemapFailure: "1" }, "b")).toMatchObject({ id: "row_remap_failure" });
});
