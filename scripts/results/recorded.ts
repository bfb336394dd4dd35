// Results of test and bench runs: this machine's in `.cache/results`, and the published ones in `docs/results` (`npm run report`).
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { dirname, join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");
export const recordedFolder = join(root, ".cache/results");
export const publishedFolder = join(root, "docs/results");

/** Where and of what a result is. */
export interface Origin {
  /** Date, UTC: `2026-11-30`. */
  readonly on: string;
  /** Abbreviated hash of the commit; with `+` if files were changed since. */
  readonly commit: string;
}

/** Tests of a file. */
export interface TestResult extends Origin {
  readonly passed: number;
  readonly failed: number;
  /** With the nightly run's sizes and clocks. */
  readonly isNightly: boolean;
}

export interface FigureResult extends Origin {
  /** Median of the rounds, or what the bench computes of all of them. */
  readonly value: number;
  readonly low: number;
  readonly high: number;
  /** `2 cores, load 1.2`: mean load of the five minutes before. */
  readonly machine: string;
  /** Random, the same for all results of a machine. Only those of one machine are compared. */
  readonly machineId: string;
}

export interface FigureHistory {
  /** `ms`, `MiB`; absent: a ratio. */
  readonly unit?: string;
  readonly atMost?: number;
  readonly atLeast?: number;
  /** The oldest first. */
  readonly results: readonly FigureResult[];
}

/** By path of the file: `test/unit/a.test.ts`. */
export type Tests = Readonly<Record<string, TestResult>>;
/** By bench and name: `gateway: control plane, MiB`. */
export type Figures = Readonly<Record<string, FigureHistory>>;

/** Results that a figure keeps. */
const maxResults = 20;

export const readTests = (folder: string): Tests => read(folder, "tests.json");
export const readFigures = (folder: string): Figures => read(folder, "figures.json");

/** Adds results to those of the folder, which replace older ones of the same files. */
export const addTests = (folder: string, tests: Tests): void =>
  write(folder, "tests.json", { ...readTests(folder), ...tests });

/** Adds results to the histories of the folder, except those that are there. */
export function addFigures(folder: string, figures: Figures): void {
  const all: Record<string, FigureHistory> = { ...readFigures(folder) };
  for (const [key, figure] of Object.entries(figures)) {
    const results = [...(all[key]?.results ?? [])];
    const known = new Set(results.map((result) => JSON.stringify(result)));
    results.push(...figure.results.filter((result) => !known.has(JSON.stringify(result))));
    all[key] = { ...figure, results: results.slice(-maxResults) };
  }
  write(folder, "figures.json", all);
}

/** The date and the commit now. Outside of a repository the commit is `unknown`. */
export function origin(): Origin {
  const git = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
  let commit = "unknown";
  try {
    commit = git("rev-parse", "--short=8", "HEAD");
    if (git("status", "--porcelain", "--untracked-files=no") !== "") commit += "+";
  } catch {
    // No git, or no repository: a release is tested from its archive.
  }
  return { on: new Date().toISOString().slice(0, 10), commit };
}

/** This machine's id, as long as its `.cache` is kept. */
export function machineId(): string {
  const path = join(recordedFolder, "machine-id");
  if (!existsSync(path)) {
    mkdirSync(recordedFolder, { recursive: true });
    writeFileSync(path, randomBytes(3).toString("hex"));
  }
  return readFileSync(path, "utf8").trim();
}

export const machine = (): string => `${cpus().length} cores, load ${(loadavg()[1] ?? 0).toFixed(1)}`;

function read<T extends object>(folder: string, name: string): T {
  let text: string;
  try {
    text = readFileSync(join(folder, name), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {} as T;
    throw error;
  }
  return JSON.parse(text) as T;
}

/** Sorted, so that a commit shows what changed. */
function write(folder: string, name: string, all: Readonly<Record<string, unknown>>): void {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  const sorted = Object.fromEntries(Object.entries(all).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const fresh = `${path}.${process.pid}`;
  writeFileSync(fresh, `${JSON.stringify(sorted, null, 1)}\n`);
  renameSync(fresh, path);
}
