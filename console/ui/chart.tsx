// Time series by uPlot: axes with units, hover read-out, light and dark.
import { Box, Group, Text, useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { type ReactNode, useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { text } from "../text/common.ts";
import { inUtc } from "./format.ts";

export interface Series {
  readonly name: string;
  /** One value per time. Null: no measurement, a gap in the line. */
  readonly values: readonly (number | null)[];
}

interface TimeChartProps {
  readonly title: string;
  /** Unix seconds, rising. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  /** Text of a value with its unit. */
  readonly show: (value: number) => string;
  readonly kind?: "line" | "bars" | "area";
  /** Each series stands on those after it. Without gaps. */
  readonly isStacked?: boolean;
  readonly height?: number;
  /** Upper end of the axis where it is known, such as 1 for a ratio. */
  readonly max?: number;
}

const lightColors = ["#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#b45309", "#0e7490", "#be185d", "#4d7c0f"];
const darkColors = ["#fb923c", "#60a5fa", "#4ade80", "#c084fc", "#fbbf24", "#22d3ee", "#f472b6", "#a3e635"];

/** Hours and minutes in UTC; the date below the first tick and where a day begins. */
const axisTexts = (ticks: readonly number[]): string[] =>
  ticks.map((at, index) => {
    const text = new Date(at * 1000).toISOString();
    const [date, time] = [text.slice(5, 10), text.slice(11, 16)];
    if (ticks.every((tick) => tick % 86_400 === 0)) return date;
    return index === 0 || time === "00:00" ? `${time}\n${date}` : time;
  });

/** Room for the longest text of the axis. */
const axisWidth = (texts: readonly (string | null)[]): number =>
  Math.max(60, 20 + 7.2 * Math.max(0, ...texts.map((text) => text?.length ?? 0)));

/** Space for half a bar at both ends. */
function besideBars(times: ArrayLike<number>, first: number, last: number): [number, number] {
  const half = times.length > 1 ? ((times[times.length - 1] ?? 0) - (times[0] ?? 0)) / (times.length - 1) / 2 : 43_200;
  return [first - half, last + half];
}

const isIsolated = (values: ArrayLike<number | null | undefined>): boolean =>
  Array.from(values).some((value, at) => value != null && values[at - 1] == null && values[at + 1] == null);

/** What is drawn for each series: its own values on the sum of those of the later ones. */
function stacked(series: readonly Series[]): readonly (readonly (number | null)[])[] {
  let above: readonly (number | null)[] = [];
  return series
    .toReversed()
    .map(({ values }) => {
      above = values.map((value, at) => (value ?? 0) + (above[at] ?? 0));
      return above;
    })
    .toReversed();
}

/** Height of one line: what is below the chart does not move when it is drawn. */
const legendHeight = 27;

export function TimeChart(props: TimeChartProps): ReactNode {
  const { title, times, series, show, kind = "line", isStacked = false, height = 180, max } = props;
  const { ref, width } = useElementSize();
  const host = useRef<HTMLDivElement>(null);
  const isDark = useComputedColorScheme("light") === "dark";
  const isEmpty = times.length === 0 || series.every(({ values }) => values.every((value) => value === null));
  const names = series.map(({ name }) => name).join("\n");
  const plot = useRef<uPlot>(undefined);
  const showRef = useRef(show);
  showRef.current = show;
  const drawn = isStacked ? stacked(series) : series.map(({ values }) => values);
  const data = [times, ...drawn] as unknown as uPlot.AlignedData;
  const seriesRef = useRef(series);
  seriesRef.current = series;
  const dataRef = useRef(data);
  dataRef.current = data;

  useEffect(() => {
    if (isEmpty || !host.current || width === 0) return;
    const colors = isDark ? darkColors : lightColors;
    const axisColor = isDark ? "#c1c2c5" : "#495057";
    const gridColor = isDark ? "rgba(255,255,255,.08)" : "rgba(0,0,0,.07)";
    const axis = { stroke: axisColor, grid: { stroke: gridColor, width: 1 }, ticks: { stroke: gridColor, width: 1 } };
    const made = new uPlot(
      {
        width,
        height,
        legend: { live: true },
        cursor: { y: false, points: { size: 6 } },
        scales: {
          ...(kind === "bars" ? { x: { range: (_, first, last) => besideBars(dataRef.current[0], first, last) } } : {}),
          y: { range: (_, low, high) => [Math.min(0, low ?? 0), max ?? ((high ?? 0) > 0 ? (high ?? 0) * 1.1 : 1)] },
        },
        // As all absolute times of the console.
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
        axes: [
          { ...axis, values: (_, ticks) => axisTexts(ticks) },
          {
            ...axis,
            size: (_, values) => axisWidth(values ?? []),
            values: (_, ticks) => ticks.map((value) => showRef.current(value)),
          },
        ],
        series: [
          { value: (_, at) => (at === null || at === undefined ? "–" : inUtc(at * 1000)), label: "Time" },
          ...names.split("\n").map((label, index): uPlot.Series => {
            const color = colors[index % colors.length] as string;
            return {
              label,
              stroke: color,
              width: 1.5,
              value: (_, _value, _series, at) => {
                const value = at === null ? undefined : seriesRef.current[index]?.values[at];
                return value === null || value === undefined ? "–" : showRef.current(value);
              },
              // A measurement between two gaps has no line.
              points: {
                show:
                  kind !== "bars" && (dataRef.current[0].length < 40 || isIsolated(dataRef.current[index + 1] ?? [])),
              },
              ...(kind === "line" ? {} : { fill: isStacked ? color : `${color}33` }),
              ...(kind === "bars" && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.8, 60] }) } : {}),
            };
          }),
        ],
      },
      dataRef.current,
      host.current,
    );
    plot.current = made;
    return () => {
      plot.current = undefined;
      made.destroy();
    };
  }, [isEmpty, width, height, isDark, names, kind, isStacked, max]);
  useEffect(() => {
    plot.current?.setData(data);
  });

  const highest = Math.max(...drawn.flatMap((values) => values.filter((value) => value !== null)), 0);
  return (
    <Box component="figure" m={0} className="chart">
      <Group component="figcaption" justify="space-between" gap="xs" mb={4}>
        <Text size="sm" fw={600}>
          {title}
        </Text>
      </Group>
      <div ref={ref} style={isEmpty ? undefined : { minHeight: height + legendHeight }}>
        {isEmpty ? (
          <Text size="sm" c="dimmed" py="lg" ta="center">
            {text.noData}
          </Text>
        ) : (
          <div ref={host} role="img" aria-label={`${title}: ${text.upTo(show(highest))}`} />
        )}
      </div>
    </Box>
  );
}
