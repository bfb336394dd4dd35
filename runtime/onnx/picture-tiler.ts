// Asks the thread that cuts pictures into tiles.
import { Worker } from "node:worker_threads";
import { LoadFailure } from "../llama/load-failure.ts";
import { PictureError } from "./image-processor.ts";
import type { ModelFolder } from "./model-folder.ts";
import type { TileAnswer, TileQuestion, Tiles } from "./tile-messages.ts";

interface Waiter {
  readonly resolve: (tiles: Tiles | undefined) => void;
  readonly reject: (error: Error) => void;
}

export class PictureTiler {
  readonly #thread: Worker;
  readonly #waiters = new Map<number, Waiter>();
  #lastId = 0;
  #end: string | undefined;

  private constructor(root: string) {
    this.#thread = new Worker(new URL("./tile-thread.ts", import.meta.url), {
      execArgv: process.execArgv,
      workerData: root,
    });
    this.#thread.on("message", (answer: TileAnswer) => {
      const waiter = this.#waiters.get(answer.id);
      this.#waiters.delete(answer.id);
      if ("tiles" in answer) waiter?.resolve(answer.tiles);
      else waiter?.reject(answer.isPicture ? new PictureError(answer.failure) : new Error(answer.failure));
    });
    this.#thread.on("error", (error) => this.#ended(error instanceof Error ? error.message : String(error)));
    this.#thread.on("exit", () => this.#ended("the thread that prepares pictures has ended"));
  }

  /** Throws LoadFailure. */
  static async open(folder: ModelFolder): Promise<PictureTiler> {
    const tiler = new PictureTiler(folder.root);
    try {
      await tiler.#answerTo(0);
      return tiler;
    } catch (error) {
      await tiler.close();
      throw new LoadFailure("image processor not readable", (error as Error).message, { cause: error });
    }
  }

  /** Throws PictureError where the picture is at fault. */
  async tiles(bytes: Uint8Array, isCoarse: boolean): Promise<Tiles> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = this.#answerTo(id);
    this.#thread.postMessage({ id, bytes, isCoarse } satisfies TileQuestion);
    return (await answer) as Tiles;
  }

  async close(): Promise<void> {
    this.#ended("the model server is stopping");
    await this.#thread.terminate();
  }

  #answerTo(id: number): Promise<Tiles | undefined> {
    if (this.#end !== undefined) return Promise.reject(new Error(this.#end));
    return new Promise((resolve, reject) => this.#waiters.set(id, { resolve, reject }));
  }

  #ended(why: string): void {
    this.#end ??= why;
    for (const { reject } of this.#waiters.values()) reject(new Error(why));
    this.#waiters.clear();
  }
}
