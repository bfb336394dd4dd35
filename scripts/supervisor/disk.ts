// What the disk of the data folder has left.
import { existsSync, statfsSync } from "node:fs";
import { dirname } from "node:path";

/** Less than this and the next write of somebody fails. */
const fullBytes = 1e6;

/** The folder, or where it is not made yet the nearest one above it, and what an ordinary user may still write there. */
export function diskOf(folder: string): { readonly place: string; readonly freeBytes: number } {
  let place = folder;
  while (!existsSync(place) && dirname(place) !== place) place = dirname(place);
  const stats = statfsSync(place);
  return { place, freeBytes: stats.bavail * stats.bsize };
}

/** A sentence to put behind what went wrong, with a space before it; empty where the disk has room or cannot be asked. */
export function fullDiskNote(dataDir: string): string {
  try {
    return diskOf(dataDir).freeBytes < fullBytes ? ` The disk of ${dataDir} is full: free some of it.` : "";
  } catch {
    return "";
  }
}
