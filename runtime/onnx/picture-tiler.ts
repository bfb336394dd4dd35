// Asks the thread that cuts pictures into tiles.
import { LoadFailure } from "../llama/load-failure.ts";
import { ThreadCalls } from "../threads/thread-calls.ts";
import { PictureError } from "./image-processor.ts";
import type { ModelFolder } from "./model-folder.ts";
import type { TileAnswer, TileQuestion, Tiles } from "./tile-messages.ts";

export class PictureTiler {
  readonly #calls: ThreadCalls<TileAnswer>;

  private constructor(root: string) {
    this.#calls = new ThreadCalls(new URL("./tile-thread.ts", import.meta.url), {
      purpose: "that prepares pictures",
      workerData: root,
      errorOf: (answer) => {
        if ("tiles" in answer) return undefined;
        return answer.isPicture ? new PictureError(answer.failure) : new Error(answer.failure);
      },
    });
  }

  /** Throws LoadFailure. */
  static async open(folder: ModelFolder): Promise<PictureTiler> {
    const tiler = new PictureTiler(folder.root);
    try {
      await tiler.#calls.awaitReply(0);
      return tiler;
    } catch (error) {
      await tiler.close();
      throw new LoadFailure("image processor not readable", (error as Error).message, { cause: error });
    }
  }

  /** Throws PictureError where the picture is at fault. */
  async tiles(bytes: Uint8Array, isCoarse: boolean): Promise<Tiles> {
    const answer = await this.#calls.ask({ bytes, isCoarse } satisfies Omit<TileQuestion, "id">);
    return (answer as Extract<TileAnswer, { tiles: unknown }>).tiles as Tiles;
  }

  close(): Promise<void> {
    return this.#calls.close();
  }
}
