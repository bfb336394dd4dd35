// GPU types with price, free GPUs and the scheduler's answer for this model.
import { NumberInput, Radio, SegmentedControl, Stack, Table, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import type { ReactNode } from "react";
import { gpusOf, hoursPerMonth, type Offer } from "../../domain/deployment.ts";
import { countsOf, type TypeOffer } from "../../domain/gpu-offers.ts";
import { text } from "../../text/deployments.ts";
import { bytes, usd } from "../../ui/format.ts";
import { Section } from "../../ui/page.tsx";
import type { Check } from "./fits.ts";
import type { FormPart } from "./model-choice.tsx";

const words = text.create;

interface HardwareProps extends FormPart {
  readonly offers: readonly Offer[];
  readonly types: readonly TypeOffer[];
  readonly fits: ReadonlyMap<string, Check>;
}

export function Hardware({ form, change, offers, types, fits }: HardwareProps): ReactNode {
  const isPhone = useMediaQuery("(max-width: 48em)");
  const counts = countsOf(offers);
  const choose = (gpu: string) => change({ gpu });
  return (
    <Section title={words.hardware} about={words.hardwareAbout}>
      <Stack gap="md">
        {counts.length > 1 && (
          <div>
            <Text size="sm" fw={500} mb={4} id="gpu-count">
              {words.count}
            </Text>
            <SegmentedControl
              aria-labelledby="gpu-count"
              data={counts.map(String)}
              value={String(form.numGpus)}
              onChange={(value) => change({ numGpus: Number(value) })}
            />
          </div>
        )}
        {types.length === 0 ? (
          <Text size="sm">{words.noHosts}</Text>
        ) : (
          <Radio.Group value={form.gpu} onChange={choose} label={words.gpu}>
            {isPhone ? (
              <Stack gap="xs" mt="xs">
                {types.map((one) => (
                  <Radio
                    key={one.gpu}
                    value={one.gpu}
                    label={gpusOf(form.numGpus, one.gpu, offers)}
                    description={
                      <>
                        {price(one)} · {free(one)}
                        <br />
                        <FitText check={fits.get(one.gpu)} />
                      </>
                    }
                  />
                ))}
              </Stack>
            ) : (
              <Table.ScrollContainer minWidth={560}>
                <Table mt="xs" highlightOnHover aria-label={words.gpu}>
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>{words.gpu}</Table.Th>
                      <Table.Th className="number">{words.perHour}</Table.Th>
                      <Table.Th className="number">{words.perMonth}</Table.Th>
                      <Table.Th>{words.availability}</Table.Th>
                      <Table.Th>{words.fit}</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {types.map((one) => (
                      <Table.Tr key={one.gpu} onClick={() => choose(one.gpu)} className="clickable">
                        <Table.Td>
                          <Radio value={one.gpu} label={gpusOf(form.numGpus, one.gpu, offers)} />
                        </Table.Td>
                        <Table.Td className="number">{one.usdPerHour === 0 ? text.free : usd(one.usdPerHour)}</Table.Td>
                        <Table.Td className="number">
                          {one.usdPerHour === 0 ? "–" : usd(Math.round(one.usdPerHour * hoursPerMonth))}
                        </Table.Td>
                        <Table.Td>{free(one)}</Table.Td>
                        <Table.Td>
                          <FitText check={fits.get(one.gpu)} />
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            )}
          </Radio.Group>
        )}
        <NumberInput
          label={words.batch}
          description={words.batchHint}
          min={1}
          max={256}
          value={form.batch}
          onChange={(value) => change({ batch: Number(value) || 1 })}
          maw={320}
        />
      </Stack>
    </Section>
  );
}

const price = ({ usdPerHour }: TypeOffer): string =>
  usdPerHour === 0
    ? text.free
    : `${text.perHour(usd(usdPerHour))}, ${text.perMonth(usd(Math.round(usdPerHour * hoursPerMonth)))}`;

function free({ isAvailable, freeAtLeast }: TypeOffer): ReactNode {
  const words_ = freeAtLeast === 0 ? words.noneFree : words.freeNow(freeAtLeast);
  return (
    <>
      <span aria-hidden="true">{isAvailable ? "●" : "○"}</span> {words_}
    </>
  );
}

function FitText({ check }: { check: Check | undefined }): ReactNode {
  const { state = "incomplete", fit, error } = check ?? {};
  switch (state) {
    case "incomplete":
      return (
        <Text span inherit c="dimmed">
          {words.fitOf.chooseModel}
        </Text>
      );
    case "unknown":
      return (
        <Text span inherit c="dimmed">
          {words.fitOf.unknown}
        </Text>
      );
    case "checking":
      return (
        <Text span inherit c="dimmed">
          {words.fitOf.checking}
        </Text>
      );
    case "fits":
      return (
        <Text span inherit c="var(--mantine-color-green-text)">
          ● {words.fitOf.fits(fit && fit.memory_bytes > 0 ? bytes(fit.memory_bytes) : "")}
        </Text>
      );
    case "misfit":
      return (
        <Text
          span
          inherit
          c="var(--mantine-color-red-text)"
          title={fit?.refused.map(({ host, why }) => `${host}: ${why}`).join("\n")}
        >
          ✕ {words.fitOf.not}
        </Text>
      );
    default:
      return (
        <Text span inherit c="var(--mantine-color-red-text)" title={error?.message}>
          ✕ {error?.code === "gpu_limit_reached" ? words.fitOf.limit : words.fitOf.refused}
        </Text>
      );
  }
}
