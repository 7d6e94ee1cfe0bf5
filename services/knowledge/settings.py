"""What the operator may set for knowledge."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.settings import RoomSettings


class Settings(RoomSettings):
    """Where knowledge is kept, how texts become vectors, and when a lesson is trusted."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_KNOWLEDGE_")

    folder: str = Field(default=".autopatch/knowledge", description="folder of the embedded Qdrant; one process at a time")
    url: str = Field(default="", description="a Qdrant server or cluster instead, such as http://qdrant:6333")
    api_key: SecretStr = Field(default=SecretStr(""), description="of the Qdrant server")
    server_timeout_s: float = Field(default=8, gt=0, le=86_400, description="seconds for an answer of the Qdrant server")
    embedder: str = Field(
        default="minilm",
        description="minilm: all-MiniLM-L6-v2 from its wheel; none: lexical search only, saves 500 MB; else the folder of a"
        " sentence-transformers model",
    )
    threads: int = Field(default=1, ge=1, description="CPU threads of the embedder")
    token: SecretStr = Field(
        default=SecretStr(""), description="bearer token that the gateway sends with documents; empty: nobody writes over HTTP"
    )
    runbooks: str = Field(default="runbooks", description="folder of Markdown files, read at start; empty: none")
    half_life_days: float = Field(default=90, gt=0, le=36_500, description="after so many days an outcome counts half")
    trust_bar: float = Field(
        default=0.4, gt=0, lt=1, description="trust below which a lesson is withheld; one recovery stands for 0.5, see README"
    )
