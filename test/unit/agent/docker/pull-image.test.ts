import { describe, expect, it } from "vitest";
import { countLine, partsOf, pullFault } from "../../../../agent/docker/pull-image.ts";

describe("a pull", () => {
  it.each([
    ["vllm/vllm-openai", "vllm/vllm-openai", "latest"],
    ["vllm/vllm-openai:v1", "vllm/vllm-openai", "v1"],
    ["127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b", "latest"],
    ["127.0.0.1:5000/a/b:2@sha256:abc", "127.0.0.1:5000/a/b", "sha256:abc"],
  ])("requests %s by name and version", (image, fromImage, tag) => expect(partsOf(image)).toEqual({ fromImage, tag }));

  it("counts a layer's bytes once, whatever is done with it afterwards", () => {
    const layers = new Map();
    const tell = (status: string, current?: number, total?: number) =>
      countLine(layers, {
        id: "a",
        status,
        progressDetail: current === undefined ? {} : { current, total: total ?? 0 },
      });
    tell("Pulling fs layer");
    expect(layers.size).toBe(0);
    tell("Downloading", 10, 100);
    expect(layers.get("a")).toEqual({ done: 10, total: 100 });
    tell("Download complete");
    tell("Extracting", 5, 100);
    tell("Pull complete");
    expect(layers.get("a")).toEqual({ done: 100, total: 100 });
    countLine(layers, { status: "Digest: sha256:abc" });
    expect(layers.size).toBe(1);
  });

  it.each([
    ["manifest for a@sha256:0 not found: manifest unknown", "image_missing", false],
    ["pull access denied for a/b, repository does not exist or may require 'docker login'", "image_missing", false],
    ["Head ...: unauthorized: authentication required", "image_forbidden", false],
    ["manifest verification failed for digest sha256:1", "image_corrupt", false],
    ["write /var/lib/docker/tmp: no space left on device", "no_space", true],
    ["Get http://127.0.0.1:1/v2/: dial tcp 127.0.0.1:1: connect: connection refused", "image_unreachable", true],
  ])("reports %j as %s", (said, code, retryable) =>
    expect(pullFault(new Error(said), "a/b")).toMatchObject({ code, retryable }),
  );
});
