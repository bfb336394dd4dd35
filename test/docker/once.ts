// What several files need and one of them makes: the first one to ask does it, the others wait for how that ended.
import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inject, vi } from "vitest";

const waiting = { timeout: 30 * 60_000, interval: 250 };

/** Rejects in every file alike where `work` did. */
export async function oncePerRun(name: string, work: () => Promise<void>): Promise<void> {
  const place = join(inject("dockerRun").folder, name);
  const end = join(place, "end.json");
  if (isFirst(place)) {
    const { message, stderr } = await work().then(
      () => ({ message: "", stderr: "" }),
      (error: Error & { stderr?: string }) => ({ message: error.message, stderr: error.stderr ?? "" }),
    );
    writeFileSync(`${end}.new`, JSON.stringify({ message, stderr }));
    renameSync(`${end}.new`, end);
  }
  await vi.waitFor(() => {
    if (!existsSync(end)) throw new Error(`${name} is still being made`);
  }, waiting);
  const { message, stderr } = JSON.parse(readFileSync(end, "utf8"));
  if (message !== "") throw Object.assign(new Error(message), { stderr });
}

/** What the engine does badly for two files at a time, such as two pushes of one image. */
export async function oneAtATime<T>(name: string, work: () => Promise<T>): Promise<T> {
  const place = join(inject("dockerRun").folder, `${name}.lock`);
  await vi.waitFor(() => {
    if (!isFirst(place)) throw new Error(`another file is at ${name}`);
  }, waiting);
  try {
    return await work();
  } finally {
    rmdirSync(place);
  }
}

function isFirst(place: string): boolean {
  try {
    mkdirSync(place);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}
