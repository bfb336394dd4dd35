import { randomBytes } from "node:crypto";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

/** The whole file or nothing of it, readable by its owner only, on disk when the promise resolves. */
export async function writeFileAtomically(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const fresh = `${path}.${randomBytes(6).toString("hex")}`;
  const file = await open(fresh, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await rename(fresh, path);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(fresh, { force: true });
    throw error;
  }
}
