// Free space of the data folder.
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { diskSpaceSync } from "../../proto/disk-space.ts";

/** Below this, writes may fail. */
const fullBytes = 1e6;

/** The folder or its nearest existing parent, and the free space for ordinary users. */
export function diskOf(folder: string): { readonly place: string; readonly freeBytes: number } {
  let place = folder;
  while (!existsSync(place) && dirname(place) !== place) place = dirname(place);
  return { place, freeBytes: diskSpaceSync(place).freeBytes };
}

/** Sentence for an error message, with a leading space. Empty if the disk has space or is unreadable. */
export function fullDiskNote(dataDir: string): string {
  try {
    return diskOf(dataDir).freeBytes < fullBytes ? ` The disk of ${dataDir} is full. Free some space.` : "";
  } catch {
    return "";
  }
}
