// Buttons that sign in through identity providers. They leave the page: the provider sends the browser back to it.
import { Button, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../proto/gen/responses.ts";
import { useGet } from "../api/hooks.ts";
import { afterProvider } from "../domain/entrance.ts";
import { text } from "../text/sign-in.ts";
import { base } from "./base.ts";

type Offered = Responses["GET /v1/auth/providers"];

interface ProviderButtonsProps {
  /** Address whose provider is offered first; undefined: none is known yet. */
  readonly email: string | undefined;
  /** The person must sign in at the provider again. */
  readonly isFresh?: boolean;
}

export function ProviderButtons({ email, isFresh = false }: ProviderButtonsProps): ReactNode {
  const query = email === undefined ? "" : `?${new URLSearchParams({ email })}`;
  const { data } = useGet<Offered>(`/v1/auth/providers${query}`);
  if (!data || data.providers.length === 0) return null;
  const cli = new URLSearchParams(location.search).get("cli");
  const target = new URLSearchParams({ return_to: afterProvider(location.pathname, location.search, base) });
  // A command line receives a key, so the provider's own session does not suffice.
  if (isFresh || cli !== null) target.set("fresh", "1");
  if (email !== undefined) target.set("email", email);
  return (
    <Stack gap="xs">
      {data.providers.map(({ id, name, url }) => (
        <Button key={id} component="a" href={`${url}?${target}`} variant="default">
          {text.signInWith(name)}
        </Button>
      ))}
    </Stack>
  );
}
