"""The settings of a server under `auth`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from toolcrib.errors import ConfigError, Problem, ToolcribError
from toolcrib.model.record import Record

AuthMode = Literal["shared", "per_user", "exchange", "client_credentials"]


class AuthConfig(Record):
    """The login to one server; servers with dynamic client registration need no settings.

    >>> AuthConfig(mode="client_credentials", client_id="nightly", private_key="key.pem").mode
    'client_credentials'
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=False)

    mode: AuthMode = "shared"
    """The login to use: one for everybody, made with `toolcrib login` (`shared`); one for each caller, who
    logs in at `/connect/NAME` of the gateway (`per_user`) or whose token is exchanged for a token of the
    server (`exchange`); or that of the program itself (`client_credentials`)."""
    client_id: str | None = None
    """The id of the registered client, or the `https://` address of a client metadata document."""
    client_secret: str | None = Field(default=None, repr=False)
    """Its secret, preferably as `${VAR}`."""
    private_key: str | None = Field(default=None, repr=False)
    """A PEM file with the private key of the client, instead of a secret."""
    scopes: tuple[str, ...] = ()
    """The scopes to request, instead of those that the server suggests."""
    issuer: str | None = None
    """The authorization server; credentials are sent to no other."""
    audience: str | None = None
    """The audience of exchanged tokens, if the authorization server does not know the server by its
    address."""
    redirect_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port of the redirect URI, if the registered one has a fixed port."""

    @model_validator(mode="after")
    def _check_combination(self) -> "AuthConfig":
        message, is_program = None, self.mode in {"client_credentials", "exchange"}
        if is_program and not self.client_id:
            message = f"the mode {self.mode!r} needs a client_id"
        elif is_program and bool(self.client_secret) == bool(self.private_key):
            message = f"the mode {self.mode!r} needs either a client_secret or a private_key"
        elif self.mode == "exchange" and not self.issuer:
            message = "the mode 'exchange' needs the issuer that the tokens of clients may be sent to"
        elif self.audience and self.mode != "exchange":
            message = "an audience is for the mode 'exchange'"
        elif self.private_key and not is_program:
            message = "a private_key is for the modes 'client_credentials' and 'exchange'"
        elif self.client_secret and not self.client_id:
            message = "a client_secret needs its client_id"
        elif self.client_secret and not self.issuer:
            message = "a client_secret needs the issuer that it may be sent to"
        if message is not None:
            raise PydanticCustomError("auth", "{message}", {"message": message})
        return self

    @property
    def texts(self) -> dict[str, str]:
        """The settings that may hold variables, by their names."""
        names = ("client_id", "client_secret", "private_key", "issuer", "audience")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - values may be secret
        return ConfigError("auth", problems)
