// Cuts pictures into tiles in a thread of its own.
import { LoadFailure } from "../llama/load-failure.ts";
import { ThreadCalls } from "../threads/thread-calls.ts";
import { PictureError } from "./image-processor.ts";
import type { ModelFolder } from "./model-folder.ts";
import type { TileFunctions, Tiles } from "./tile-thread.ts";

export interface PictureTiler {
  /** Throws PictureError where the picture is at fault. */
  tiles(bytes: Uint8Array, isCoarse: boolean): Promise<Tiles>;
  close(): Promise<void>;
}

/** Throws LoadFailure. */
export async function openPictureTiler(folder: ModelFolder): Promise<PictureTiler> {
  const script = new URL("./tile-thread.ts", import.meta.url);
  const thread = new ThreadCalls<TileFunctions>(
    script,
    "that prepares pictures",
    ({ name, message }) => (name === "PictureError" ? new PictureError(message) : new Error(message)),
    folder.root,
  );
  try {
    await thread.call("open");
  } catch (error) {
    await thread.close();
    throw new LoadFailure("image processor not readable", (error as Error).message, { cause: error });
  }
  return {
    tiles: (bytes, isCoarse) => thread.call("tiles", bytes, isCoarse),
    close: () => thread.close(),
  };
}
