import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { boards } from "../../../scripts/boards/boards.ts";
import { grafanaOf } from "../../../scripts/boards/grafana.ts";

it("has a file for each board and no other", () => {
  const files = readdirSync(join(import.meta.dirname, "../../../deploy/grafana"));
  expect(files.sort()).toEqual(boards.map(({ id }) => `${id}.json`).sort());
});

it.each(boards.map((board) => [board.title, board] as const))("places the panels of %s without overlap", (_, board) => {
  const { panels } = grafanaOf(board) as {
    panels: { id: number; type: string; gridPos: { x: number; y: number; w: number; h: number } }[];
  };
  const taken = new Set<string>();
  for (const { gridPos: at } of panels) {
    expect(at.x + at.w).toBeLessThanOrEqual(24);
    for (let x = at.x; x < at.x + at.w; x++)
      for (let y = at.y; y < at.y + at.h; y++) {
        expect(taken.has(`${x} ${y}`)).toBe(false);
        taken.add(`${x} ${y}`);
      }
  }
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
});
