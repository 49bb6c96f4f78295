"""Settings come from the environment, and every invalid one is named in one message (CON-26)."""

import pytest

from nodewright.operator.settings import Address, LogFormat, LogLevel, Settings, SettingsError, TaintSetting

AGENT = {"AGENT_IMAGE": "ghcr.io/org/agent:1.2.3"}


def settings(**environment: str) -> Settings:
    return Settings.from_environment({**AGENT, **environment})


def faults(**environment: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        settings(**environment)
    return caught.value.faults


def test_an_environment_with_only_the_agent_image_has_the_defaults() -> None:
    """CON-26."""
    assert settings() == Settings(
        namespace="nodewright",
        default_interval=600,
        plan_interval=0.05,
        image_pull_secret="",
        copy_dir_root="/var/lib/skyhook",
        agent_log_root="/var/log/skyhook",
        agent_image="ghcr.io/org/agent:1.2.3",
        reapply_on_reboot=False,
        runtime_required_taint=TaintSetting(key="nodewright.nvidia.com", value="runtime-required", effect="NoSchedule"),
        job_stage_timeout=3600,
        job_backoff_limit=3,
        job_ttl_succeeded=3600,
        job_ttl_failed=86400,
        job_retain=4000,
        enable_webhooks=True,
        legacy_cleanup_delay=86400,
        publish_legacy_metrics=True,
        leader_elect=True,
        metrics_address=Address(host="", port=8443),
        metrics_secure=True,
        probe_address=Address(host="", port=8081),
        webhook_address=Address(host="", port=9443),
        log_level=LogLevel.INFO,
        log_format=LogFormat.JSON,
    )


def test_every_variable_is_read() -> None:
    """CON-26."""
    assert settings(
        NAMESPACE="ops",
        DEFAULT_INTERVAL="1m",
        PLAN_INTERVAL="10ms",
        IMAGE_PULL_SECRET="pull.me",
        COPY_DIR_ROOT="/a/",
        AGENT_LOG_ROOT="/b",
        AGENT_IMAGE="localhost:5000/agent:1@sha256:00",
        REAPPLY_ON_REBOOT="TRUE",
        RUNTIME_REQUIRED_TAINT="example.com=wait:NoExecute",
        JOB_STAGE_TIMEOUT="0",
        JOB_BACKOFF_LIMIT="0",
        JOB_TTL_SUCCEEDED="1m",
        JOB_TTL_FAILED="1h30m",
        JOB_RETAIN="1",
        ENABLE_WEBHOOKS="False",
        LEGACY_CLEANUP_DELAY="0s",
        PUBLISH_LEGACY_METRICS="false",
        LEADER_ELECT="false",
        METRICS_PORT="0",
        METRICS_SECURE="false",
        PROBE_PORT="127.0.0.1:81",
        WEBHOOK_PORT="[::1]:82",
        LOG_LEVEL="DEBUG",
        LOG_FORMAT="Console",
    ) == Settings(
        namespace="ops",
        default_interval=60,
        plan_interval=0.01,
        image_pull_secret="pull.me",
        copy_dir_root="/a",
        agent_log_root="/b",
        agent_image="localhost:5000/agent:1@sha256:00",
        reapply_on_reboot=True,
        runtime_required_taint=TaintSetting(key="example.com", value="wait", effect="NoExecute"),
        job_stage_timeout=0,
        job_backoff_limit=0,
        job_ttl_succeeded=60,
        job_ttl_failed=5400,
        job_retain=1,
        enable_webhooks=False,
        legacy_cleanup_delay=0,
        publish_legacy_metrics=False,
        leader_elect=False,
        metrics_address=None,
        metrics_secure=False,
        probe_address=Address(host="127.0.0.1", port=81),
        webhook_address=Address(host="::1", port=82),
        log_level=LogLevel.DEBUG,
        log_format=LogFormat.CONSOLE,
    )


@pytest.mark.parametrize(
    ("variable", "value", "way_out"),
    [
        ("NAMESPACE", "No_Space", "is not the name of a namespace"),
        ("DEFAULT_INTERVAL", "59s", "must be at least 1m0s"),
        ("DEFAULT_INTERVAL", "600", "is not a duration"),
        ("PLAN_INTERVAL", "0", "must be at least 1ms"),
        ("IMAGE_PULL_SECRET", "a b", "is not the name of an object"),
        ("COPY_DIR_ROOT", "var/lib", "must be an absolute path"),
        ("AGENT_LOG_ROOT", "/var/../etc", "must not contain `..`"),
        ("AGENT_IMAGE", "registry:5000/agent", "needs a tag"),
        ("AGENT_IMAGE", "agent@sha256:00", "needs a tag"),
        ("AGENT_IMAGE", "agent:1 2", "contains whitespace"),
        ("REAPPLY_ON_REBOOT", "yes", "is not true or false"),
        ("RUNTIME_REQUIRED_TAINT", "example.com/rr=true:NoSchedule", "does not fit into an annotation"),
        ("RUNTIME_REQUIRED_TAINT", "a" * 54 + "=x:NoSchedule", "does not fit into an annotation"),
        ("RUNTIME_REQUIRED_TAINT", "key=value", "must be key=value:effect"),
        ("RUNTIME_REQUIRED_TAINT", "key=value:Sometimes", "must be key=value:effect"),
        ("RUNTIME_REQUIRED_TAINT", "key=a b:NoSchedule", "has a value that is no taint value"),
        ("JOB_STAGE_TIMEOUT", "-1s", "must not be negative"),
        ("JOB_BACKOFF_LIMIT", "-1", "must be a whole number from 0"),
        ("JOB_BACKOFF_LIMIT", "three", "must be a whole number from 0"),
        ("JOB_TTL_SUCCEEDED", "30s", "must be at least 1m0s"),
        ("JOB_TTL_FAILED", "0", "must be at least 1m0s"),
        ("JOB_RETAIN", "0", "must be a whole number from 1"),
        ("ENABLE_WEBHOOKS", "1", "is not true or false"),
        ("LEGACY_CLEANUP_DELAY", "-1h", "must not be negative"),
        ("METRICS_PORT", "8443", "must be [host]:port"),
        ("PROBE_PORT", ":0", "must be [host]:port"),
        ("WEBHOOK_PORT", ":65536", "must be [host]:port"),
        ("WEBHOOK_PORT", "::1:82", "must be [host]:port"),
        ("LOG_LEVEL", "loud", "must be one of debug, info, warning, error"),
        ("LOG_FORMAT", "xml", "must be one of json, console"),
    ],
)
def test_an_invalid_value_is_told_with_its_variable_and_the_way_out(variable: str, value: str, way_out: str) -> None:
    """CON-26, B83."""
    (fault,) = faults(**{variable: value})
    assert fault.startswith(f"{variable}={value!r} ")
    assert way_out in fault


def test_all_faults_are_in_one_message() -> None:
    """CON-26."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({"JOB_RETAIN": "0", "LOG_LEVEL": "loud"})
    assert str(caught.value).splitlines() == [
        "invalid settings:",
        "  AGENT_IMAGE is not set; set it to the agent's image with a tag",
        "  JOB_RETAIN='0' must be a whole number from 1 to 999999999",
        "  LOG_LEVEL='loud' must be one of debug, info, warning, error",
    ]


def test_a_variable_set_to_nothing_is_not_set() -> None:
    assert settings(NAMESPACE="", JOB_RETAIN=" ") == settings()


def test_variables_of_others_are_not_refused() -> None:
    assert settings(OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318", WHATEVER="1") == settings()
