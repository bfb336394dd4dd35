import { describe, expect, it } from "vitest";
import type { ModelShape } from "../../../../control-plane/deployments/memory-estimate.ts";
import { rememberLookups } from "../../../../control-plane/deployments/placement-preview.ts";

const shape: ModelShape = {
  ...{ weightsBytes: 120, layers: 30, kvHeads: 3, keyLength: 64, valueLength: 64, contextLength: 8192 },
};

/** A hub that knows `org/known` alone, and answers at once unless it is `held`. */
function world() {
  const asked: string[] = [];
  const waiting: (() => void)[] = [];
  const now = { ms: 0, isHeld: false };
  const look = rememberLookups(
    async (repo) => {
      asked.push(repo);
      if (now.isHeld) await new Promise<void>((resolve) => waiting.push(resolve));
      return repo === "org/known" ? shape : undefined;
    },
    () => now.ms,
  );
  const ask = (repo: string, token?: string) => look(repo, "main", token);
  const answer = (): void => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  return { now, asked, ask, answer };
}

describe("requests to the hub for model shapes", () => {
  it("are sent once in ten minutes for found models, once a minute for unknown ones", async () => {
    const { now, asked, ask } = world();
    for (const ms of [0, 59_000]) {
      now.ms = ms;
      expect(await ask("org/known")).toEqual(shape);
      expect(await ask("org/none")).toBeUndefined();
    }
    expect(asked).toEqual(["org/known", "org/none"]);
    now.ms = 61_000;
    await ask("org/known");
    await ask("org/none");
    expect(asked).toEqual(["org/known", "org/none", "org/none"]);
    now.ms = 601_000;
    expect(await ask("org/known")).toEqual(shape);
    expect(asked.at(-1)).toBe("org/known");
  });

  it("are sent once for concurrent identical lookups", async () => {
    const { now, asked, ask, answer } = world();
    now.isHeld = true;
    const answers = Promise.all(Array.from({ length: 20 }, () => ask("org/known")));
    answer();
    expect(await answers).toEqual(Array.from({ length: 20 }, () => shape));
    expect(asked).toEqual(["org/known"]);
  });

  it("are limited to four at once; above that the shape is unknown, and nothing is cached", async () => {
    const { now, asked, ask, answer } = world();
    now.isHeld = true;
    const first = [1, 2, 3, 4].map((n) => ask(`org/${n}`));
    expect(await ask("org/known")).toBeUndefined();
    expect(await ask("org/known", "hf_token")).toBeUndefined();
    expect(asked).toHaveLength(4);
    answer();
    await Promise.all(first);
    now.isHeld = false;
    expect(await ask("org/known")).toEqual(shape);
  });

  it("are limited to thirty a minute over all repositories; cached answers are still given", async () => {
    const { now, asked, ask } = world();
    await ask("org/known");
    for (let n = 0; n < 100; n += 1) await ask(`org/${n}`);
    expect(asked).toHaveLength(30);
    expect(await ask("org/known")).toEqual(shape);
    now.ms = 60_000;
    await ask("org/99");
    expect(asked.at(-1)).toBe("org/99");
  });

  it("are not cached if made with a token: another caller may not see the model", async () => {
    const { asked, ask } = world();
    await ask("org/known", "hf_one");
    await ask("org/known", "hf_one");
    await ask("org/known");
    expect(asked).toHaveLength(3);
  });

  it("are cached for two hundred repositories at most: the oldest is requested again", async () => {
    const { now, asked, ask } = world();
    await ask("org/known");
    for (let n = 1; n <= 200; n += 1) {
      if (n % 30 === 0) now.ms += 60_000;
      await ask(`org/${n}`);
    }
    expect(now.ms).toBeLessThan(600_000);
    expect(asked).toHaveLength(201);
    await ask("org/known");
    expect(asked.filter((repo) => repo === "org/known")).toHaveLength(2);
    now.ms += 1;
    await ask("org/known");
    expect(asked).toHaveLength(202);
  });
});
