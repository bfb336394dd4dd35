import { expect, it } from "vitest";
import { plot } from "../../../simulator/plot.ts";

const points = (svg: string) =>
  [...svg.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)"/g)].map(([, x, y]) => [x, y].map(Number));

it("places points between the ticks of both axes", () => {
  const line = {
    name: "a",
    points: [
      [0, 0],
      [50, 25],
      [100, 50],
    ] as const,
  };
  const found = points(plot({ title: "t", xTitle: "x", yTitle: "y", lines: [line] }));
  expect(found).toEqual([
    [70, 280],
    [385, 160],
    [700, 40],
  ]);
});

it("gives powers of ten equal heights on a logarithmic axis, and labels named values", () => {
  const line = {
    name: "a",
    points: [
      [0, 10],
      [1, 100],
      [2, 1_000],
    ] as const,
  };
  const svg = plot({
    title: "t",
    xTitle: "x",
    yTitle: "y",
    lines: [line],
    isLogarithmic: true,
    xLabels: ["4", "8", "16"],
  });
  expect(points(svg).map(([, y]) => y)).toEqual([280, 160, 40]);
  expect(svg).toContain(">16</text>");
});

it("escapes text", () => {
  const line = { name: "a < b & c", points: [[0, 1]] as const };
  const svg = plot({ title: "t", xTitle: "x", yTitle: "y", lines: [line] });
  expect(svg).toContain("a &lt; b &amp; c");
});
