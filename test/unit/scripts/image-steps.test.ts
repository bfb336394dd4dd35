// The steps of Dockerfile.gpu whose layers an image has: each of them leaves fixed times (test/docker/reproducible.test.ts builds twice).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const text = readFileSync(join(import.meta.dirname, "../../../Dockerfile.gpu"), "utf8");
const stages = text
  .replaceAll("\\\n", " ")
  .split(/^(?=FROM )/m)
  .map((stage) => {
    const lines = stage.split("\n");
    return { name: / AS (\S+)/.exec(lines[0] ?? "")?.[1] ?? "", lines };
  });

describe.each(["runtime", "agent", "control-plane"])("the image %s", (image) => {
  const { lines } = stages.find(({ name }) => name === image) ?? { lines: [] };
  const stepsOf = (kind: string) => lines.filter((line) => line.startsWith(`${kind} `));

  it("runs each command so that the times of what it changes are fixed", () => {
    const commands = stepsOf("RUN");
    expect(commands.length).toBeGreaterThan(1);
    expect(commands.filter((line) => !/^RUN (if .*; then )?in-fixed-times /.test(line))).toEqual([]);
  });

  it("copies whole trees onto / whose times are fixed", () => {
    const copies = stepsOf("COPY");
    expect(copies.length).toBeGreaterThan(1);
    for (const line of copies) {
      const [, from, folder] = /^COPY --from=(\S+) (\/\S+)\/ \/$/.exec(line) ?? [];
      const source = stages.find(({ name }) => name === from);
      expect(
        source?.lines.some((step) => step.includes(`fixed-times.sh ${folder}`)),
        line,
      ).toBe(true);
    }
  });
});
