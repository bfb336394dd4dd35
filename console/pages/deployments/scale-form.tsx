import { Accordion, NumberInput, SimpleGrid, Text, Textarea } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import type { Deployment } from "../../domain/deployment.ts";
import { readSchedule, type Schedule, scheduleText } from "../../domain/schedules.ts";
import { text } from "../../text/deployments.ts";
import { Command } from "../../ui/code.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { usd } from "../../ui/format.ts";
import { Section } from "../../ui/page.tsx";

const words = text.scaleForm;
const create = text.create;

/** `rate`: USD per hour of an instance. */
export function ScaleForm({ one, rate }: { one: Deployment; rate: number | undefined }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { settings, deploy_id: id } = one;
  const [min, setMin] = useState(settings.min_instances);
  const [max, setMax] = useState(settings.max_instances);
  const save = async (fields: Fields) => {
    const number = (name: string): number | null => (fields[name] ? Number(fields[name]) : null);
    const sleep = number("sleep");
    await api.call("PUT", `/deploy/${encodeURIComponent(id)}`, {
      settings: {
        min_instances: min,
        max_instances: max,
        inactive_shutdown: min > 0 ? null : number("idle"),
        ...(sleep === null || sleep === settings.sleep_after_seconds ? {} : { sleep_after_seconds: sleep }),
        target_ttft_ms: number("ttft"),
        target_queue_ms: number("queue"),
        schedules: schedulesIn(fields["schedules"] ?? ""),
      },
    });
    await refresh("/deploy");
  };
  return (
    <Section title={words.title} about={words.about}>
      <Form act={words.submit} done={words.saved} onSend={save}>
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <NumberInput
            label={create.min}
            description={create.minHint}
            min={0}
            max={1000}
            value={min}
            onChange={(value) => setMin(Number(value))}
            required
          />
          <NumberInput
            label={create.max}
            description={create.maxHint}
            min={Math.max(1, min)}
            max={1000}
            value={max}
            onChange={(value) => setMax(Number(value))}
            required
          />
          <NumberInput
            label={create.idle}
            description={create.idleHint}
            name="idle"
            min={60}
            defaultValue={settings.inactive_shutdown ?? ""}
            disabled={min > 0}
          />
          <NumberInput
            label={create.sleep}
            description={settings.sleep_after_seconds === 0 ? words.sleepFixed : create.sleepHint}
            name="sleep"
            min={0}
            defaultValue={settings.sleep_after_seconds}
            disabled={settings.sleep_after_seconds === 0}
          />
        </SimpleGrid>
        <Accordion variant="contained" defaultValue={hasTargets(settings) ? "targets" : null}>
          <Accordion.Item value="targets">
            <Accordion.Control>{words.targets}</Accordion.Control>
            <Accordion.Panel>
              <SimpleGrid cols={{ base: 1, sm: 2 }}>
                <NumberInput
                  label={create.targetTtft}
                  description={create.targetTtftHint}
                  name="ttft"
                  min={1}
                  defaultValue={settings.target_ttft_ms ?? ""}
                />
                <NumberInput
                  label={create.targetQueue}
                  description={create.targetQueueHint}
                  name="queue"
                  min={1}
                  defaultValue={settings.target_queue_ms ?? ""}
                />
              </SimpleGrid>
              <Textarea
                mt="sm"
                label={words.schedules}
                description={words.schedulesHint}
                name="schedules"
                autosize
                minRows={2}
                defaultValue={(settings.schedules ?? []).map(scheduleText).join("\n")}
              />
            </Accordion.Panel>
          </Accordion.Item>
        </Accordion>
        {rate !== undefined && (
          <Text size="sm">
            {words.range(text.perHour(usd(rate * min)), text.perHour(usd(rate * Math.max(min, max))))}
          </Text>
        )}
        <Command value={`stoker deploy update ${id} --min ${min} --max ${max}`} />
      </Form>
    </Section>
  );
}

const hasTargets = ({
  target_ttft_ms: ttft,
  target_queue_ms: queue,
  schedules = [],
}: Deployment["settings"]): boolean => ttft !== undefined || queue !== undefined || schedules.length > 0;

/** Null: none. Throws for a line of another form. */
function schedulesIn(lines: string): readonly Schedule[] | null {
  const found = lines
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const schedule = readSchedule(line);
      if (!schedule) throw new Error(words.badSchedule(line.trim()));
      return schedule;
    });
  return found.length === 0 ? null : found;
}
