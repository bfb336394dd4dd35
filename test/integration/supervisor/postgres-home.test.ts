// Where the database lies when `up` runs as root and cannot reach it: what is there is never removed.
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { reachableFolder } from "../../../scripts/supervisor/postgres-home.ts";
import { UpError } from "../../../scripts/supervisor/up-error.ts";

const someone = 65_534;

/** Of mode 0700, as root's home is. */
function closedFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "stoker-closed-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe.skipIf(process.getuid?.() !== 0)("a database that PostgreSQL's user cannot reach", () => {
  it("is left as it is, with a sentence that says so", () => {
    const dataDir = closedFolder();
    const cluster = join(dataDir, "postgres", "cluster");
    mkdirSync(cluster, { recursive: true });
    writeFileSync(join(cluster, "PG_VERSION"), "18\n");
    chownSync(cluster, someone, someone);
    const start = () => reachableFolder(dataDir, { uid: someone, gid: someone }, () => {});
    expect(start).toThrow(UpError);
    expect(start).toThrow(/start as the user that made it/);
    expect(existsSync(join(cluster, "PG_VERSION"))).toBe(true);
  });
});
