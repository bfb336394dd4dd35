import { describe, expect, test } from "vitest";
import type { Backups } from "../../../../agent/backups/backups.ts";
import { volumeCommands } from "../../../../agent/backups/volume-commands.ts";

const signal = new AbortController().signal;

/** Notes what is asked of it. */
function recording() {
  const asked: unknown[] = [];
  const note =
    (verb: string) =>
    async (...given: unknown[]) => {
      asked.push([verb, ...given.slice(0, -1)]);
      return { sha256: "ab", sizeBytes: 7 };
    };
  const verbs = ["backup", "restore", "tryRestore", "removeBackup", "removeVolume", "recover"];
  const backups = Object.fromEntries(verbs.map((verb) => [verb, note(verb)])) as unknown as Backups;
  return { asked, commands: volumeCommands(backups) };
}

describe("a command about a volume", () => {
  test("runs the work that it names, and a backup returns its digest", async () => {
    const { asked, commands } = recording();
    const given = { volume: "v1", key: "backups/v1/bk-1", sha256: "ab", size_bytes: 7 };
    expect(await commands["volume.backup"]?.(given, signal)).toEqual({ sha256: "ab", sizeBytes: 7 });
    await commands["volume.restore"]?.(given, signal);
    await commands["volume.remove"]?.({ volume: "v1" }, signal);
    expect(asked).toEqual([
      ["backup", "v1", "backups/v1/bk-1"],
      ["restore", "v1", "backups/v1/bk-1", { sha256: "ab", sizeBytes: 7 }],
      ["removeVolume", "v1"],
    ]);
  });

  test("never brings one volume's backup into another", async () => {
    const { asked, commands } = recording();
    const given = { volume: "v1", key: "backups/v2/bk-1", sha256: "", size_bytes: 0 };
    await expect(commands["volume.restore"]?.(given, signal)).rejects.toThrow("another volume");
    expect(asked).toEqual([]);
  });

  test.each([null, {}, { volume: "../x" }, { volume: 7 }, "v1"])("is refused with arguments like %j", async (given) => {
    const { asked, commands } = recording();
    await expect(commands["volume.remove"]?.(given, signal)).rejects.toThrow("names no volume");
    expect(asked).toEqual([]);
  });
});
