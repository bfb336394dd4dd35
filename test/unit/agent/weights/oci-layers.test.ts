import { describe, expect, it } from "vitest";
import { readLayers } from "../../../../agent/weights/oci-layers.ts";
import { WeightsError } from "../../../../agent/weights/weights-error.ts";

const digest = (number: number) => `sha256:${number.toString(16).padStart(64, "0")}`;
const layer = (number: number, more: object) => ({
  mediaType: "application/x",
  digest: digest(number),
  size: 1,
  ...more,
});
const title = (name: string) => ({ annotations: { "org.opencontainers.image.title": name } });

describe("layers of an artifact", () => {
  it("are refused when one of them is no object", () => {
    for (const layers of [[null], ["text"], [layer(1, title("a")), 3]])
      expect(() => readLayers("oci://x/y", layers)).toThrow(WeightsError);
  });

  it("name parts of a model in order, and the first of several files with one name counts", () => {
    const mediaType = "application/vnd.docker.ai.gguf.v3";
    const layers = [layer(1, { mediaType }), layer(2, title("a")), layer(3, title("a")), layer(4, { mediaType })];
    expect(readLayers("oci://x/y", layers).map(({ path, sha256 }) => [path, `sha256:${sha256}`])).toEqual([
      ["model-00001-of-00002.gguf", digest(1)],
      ["a", digest(2)],
      ["model-00002-of-00002.gguf", digest(4)],
    ]);
  });
});
