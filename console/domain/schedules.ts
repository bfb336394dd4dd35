// Higher minimums at local times, as text: `mon-fri 08:00-18:00 Europe/Berlin min 2`.

const days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
type Day = (typeof days)[number];

export interface Schedule {
  readonly days: readonly Day[];
  readonly from: string;
  readonly to: string;
  readonly time_zone: string;
  readonly min_instances: number;
}
const form = /^([a-z,-]+)\s+(\d\d:\d\d)-(\d\d:\d\d)\s+(\S+)\s+min\s+(\d+)$/;

/** Undefined: the line has another form. */
export function readSchedule(line: string): Schedule | undefined {
  const [, which = "", from = "", to = "", zone = "", min = ""] = form.exec(line.trim().toLowerCase()) ?? [];
  // Names of time zones are case-sensitive.
  const zoneAsTyped = line.trim().split(/\s+/)[2] ?? zone;
  const chosen = which.split(",").flatMap((part) => daysIn(part) ?? []);
  if (min === "" || chosen.length === 0 || which.split(",").some((part) => !daysIn(part))) return undefined;
  return { days: [...new Set(chosen)], from, to, time_zone: zoneAsTyped, min_instances: Number(min) };
}

function daysIn(part: string): readonly Day[] | undefined {
  const [first, last = first] = part.split("-");
  const names: readonly (string | undefined)[] = days;
  const start = names.indexOf(first);
  const end = names.indexOf(last);
  if (start < 0 || end < 0) return undefined;
  return start <= end ? days.slice(start, end + 1) : [...days.slice(start), ...days.slice(0, end + 1)];
}

export const scheduleText = ({ days: which, from, to, time_zone: zone, min_instances: min }: Schedule): string =>
  `${daysText(which)} ${from}-${to} ${zone} min ${min}`;

function daysText(which: readonly Day[]): string {
  const places = which.map((day) => days.indexOf(day)).sort((a, b) => a - b);
  const [first = 0] = places;
  const isRow = places.length > 2 && places.every((place, index) => place === first + index);
  return isRow ? `${days[first]}-${days[places.at(-1) ?? first]}` : places.map((place) => days[place]).join(",");
}
